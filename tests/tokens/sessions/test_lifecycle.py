"""Start of a session, its time limits at a refresh, one session per user, and deletion of its user."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.security import encryption
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD
from tests.tokens.token_requests import (
    REFRESH_TOKEN_NOT_FOUND,
    audited_actions,
    error_of,
    read_claims,
    refresh,
    rotate,
    session_exists,
)
from tokens.models import AmrClaim, LegacyRefreshToken, Session

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def session_expired(reason: str = "") -> tuple[int, str, str]:
    return 400, "session_expired", f"Invalid Refresh Token: Session Expired{reason}"


INACTIVITY = session_expired(" (Inactivity)")
LOW_AAL = session_expired(" (Low AAL: User Needs MFA Verification)")
NEWER_LOGIN = session_expired(" (Revoked by Newer Login)")


# Start


def test_sign_in_starts_one_session(api: Api) -> None:
    user = factories.make_user()
    before = timezone.now()

    response = api.post(
        "/token?grant_type=password",
        {"email": user.email, "password": PASSWORD},
        headers={"User-Agent": "a browser"},
    )

    assert response.status_code == 200, response.content
    body = response.json()
    session = Session.objects.get()
    assert session.created_at is not None
    assert before <= session.created_at <= timezone.now()
    assert (session.user_id, session.aal, session.user_agent, session.ip) == (
        user.id,
        "aal1",
        "a browser",
        "127.0.0.1",
    )
    assert session.refresh_token_counter == 0
    stored = session.refresh_token_hmac_key or ""
    assert encryption.key_id(stored) == encryption.DERIVED_KEY_ID
    assert len(encryption.decrypt(stored, bound_to=session.id)) == 43
    unset = ("factor_id", "not_after", "refreshed_at", "tag", "oauth_client_id", "scopes")
    assert [getattr(session, name) for name in unset] == [None] * len(unset)
    assert len(body["refresh_token"]) == 51
    assert body["refresh_token"] == factories.refresh_token(session, 0)
    assert AmrClaim.objects.get().authentication_method == "password"
    assert not LegacyRefreshToken.objects.exists()
    user.refresh_from_db()
    assert user.last_sign_in_at == session.created_at


def test_access_token_has_claims_of_user_and_session(api: Api) -> None:
    user = factories.make_user(data={"nickname": "kit"})
    body = api.post("/token?grant_type=password", {"email": user.email, "password": PASSWORD}).json()
    claims = read_claims(body["access_token"])
    session = Session.objects.get()
    assert session.created_at is not None
    iat = int(session.created_at.timestamp())
    assert claims == {
        "sub": str(user.id),
        "aud": "authenticated",
        "exp": iat + 3600,
        "iat": iat,
        "email": user.email,
        "phone": "",
        "app_metadata": user.raw_app_meta_data,
        "user_metadata": user.raw_user_meta_data,
        "role": "authenticated",
        "aal": "aal1",
        "amr": [{"method": "password", "timestamp": iat}],
        "session_id": str(session.id),
        "is_anonymous": False,
    }
    assert (body["expires_in"], body["expires_at"]) == (3600, iat + 3600)


def test_each_sign_in_starts_another_session(api: Api) -> None:
    user = factories.make_user()
    bodies = [
        api.post("/token?grant_type=password", {"email": user.email, "password": PASSWORD}).json() for _ in range(2)
    ]
    first, second = Session.objects.order_by("created_at")
    assert first.refresh_token_hmac_key != second.refresh_token_hmac_key
    for session, body in zip((first, second), bodies, strict=True):
        assert rotate(api, body["refresh_token"]) == factories.refresh_token(session, 1)


# Time limits


@pytest.mark.parametrize(
    ("limits", "age", "error"),
    [
        ({"timebox": 10 * MINUTE}, 9, None),
        ({"timebox": 10 * MINUTE}, 11, session_expired()),
        ({"inactivity_timeout": 10 * MINUTE}, 9, None),
        ({"inactivity_timeout": 10 * MINUTE}, 11, INACTIVITY),
        ({"timebox": 10 * MINUTE, "inactivity_timeout": 5 * MINUTE}, 11, session_expired()),
        ({"timebox": 10 * MINUTE, "inactivity_timeout": 5 * MINUTE}, 9, INACTIVITY),
        ({}, 200_000, None),
    ],
)
def test_time_limits_before_first_refresh(
    limits: dict[str, timedelta], age: int, error: tuple[int, str, str] | None, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(sessions=limits)
    signed_in = factories.make_session(at=timezone.now() - age * MINUTE)
    response = refresh(api, signed_in.refresh_token)
    assert (error_of(response) if response.status_code != 200 else None) == error
    # A refresh does not delete an expired session.
    assert session_exists(signed_in.session)


@pytest.mark.parametrize(
    ("limits", "since_refresh", "error"),
    [
        ({"inactivity_timeout": 10 * MINUTE}, 9, None),
        ({"inactivity_timeout": 10 * MINUTE}, 11, INACTIVITY),
        ({"timebox": 60 * MINUTE}, 1, session_expired()),
    ],
)
def test_refresh_counts_as_activity_but_does_not_extend_timebox(
    limits: dict[str, timedelta],
    since_refresh: int,
    error: tuple[int, str, str] | None,
    api: Api,
    auth_config: ChangeConfig,
) -> None:
    auth_config(sessions=limits)
    now = timezone.now()
    signed_in = factories.make_session(at=now - 120 * MINUTE, refreshed_at=now - since_refresh * MINUTE)
    response = refresh(api, signed_in.refresh_token)
    assert (error_of(response) if response.status_code != 200 else None) == error


@pytest.mark.parametrize(("seconds", "error"), [(-1, session_expired()), (60, None)])
def test_session_ends_at_not_after(seconds: int, error: tuple[int, str, str] | None, api: Api) -> None:
    signed_in = factories.make_session(not_after=timezone.now() + seconds * SECOND)
    response = refresh(api, signed_in.refresh_token)
    assert (error_of(response) if response.status_code != 200 else None) == error


@pytest.mark.parametrize(
    ("aal", "status", "age", "error"),
    [
        ("aal1", "verified", 61, LOW_AAL),
        (None, "verified", 61, LOW_AAL),
        ("aal1", "verified", 30, None),
        ("aal2", "verified", 61, None),
        ("aal1", "unverified", 61, None),
        ("aal1", None, 61, None),
    ],
)
def test_low_aal_session_of_user_with_factor_expires(
    aal: str | None,
    status: str | None,
    age: int,
    error: tuple[int, str, str] | None,
    api: Api,
    auth_config: ChangeConfig,
) -> None:
    auth_config(sessions={"allow_low_aal": 60 * SECOND})
    user = factories.make_user()
    if status:
        factories.make_factor(user, status=status)
    signed_in = factories.make_session(user, at=timezone.now() - age * SECOND, aal=aal)
    response = refresh(api, signed_in.refresh_token)
    assert (error_of(response) if response.status_code != 200 else None) == error


@pytest.mark.parametrize(
    ("method", "has_factor", "is_limited"),
    [("password", True, True), ("totp", True, False), ("password", False, False)],
    ids=["aal1 with factor", "aal2", "aal1 without factor"],
)
def test_access_token_expires_with_low_aal_limit(
    method: str, has_factor: bool, is_limited: bool, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(sessions={"allow_low_aal": 300 * SECOND})
    user = factories.make_user()
    if has_factor:
        factories.make_factor(user)
    signed_in = factories.make_session(user, method=method, at=timezone.now() - 60 * SECOND)

    body = refresh(api, signed_in.refresh_token).json()

    claims = read_claims(body["access_token"])
    assert claims["aal"] == ("aal2" if method == "totp" else "aal1")
    assert body["expires_at"] == claims["exp"]
    assert body["expires_in"] == claims["exp"] - claims["iat"]
    if is_limited:
        created_at = Session.objects.get().created_at
        assert created_at is not None
        assert claims["exp"] == int((created_at + 300 * SECOND).timestamp())
    else:
        assert body["expires_in"] == 3600


def test_limits_apply_at_refresh_only(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"timebox": SECOND, "inactivity_timeout": SECOND})
    signed_in = factories.make_session(at=timezone.now() - 60 * SECOND)
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200


# One session per user


@pytest.fixture
def single_session(auth_config: ChangeConfig) -> None:
    auth_config(sessions={"single_per_user": True})


@pytest.mark.usefixtures("single_session")
def test_newer_session_replaces_older_session(api: Api) -> None:
    user = factories.make_user()
    first, second = factories.make_session(user), factories.make_session(user)
    assert error_of(refresh(api, first.refresh_token)) == NEWER_LOGIN
    assert rotate(api, second.refresh_token) == factories.refresh_token(second.session, 1)
    assert session_exists(first.session)
    assert Session.objects.get(id=first.session.id).refresh_token_counter == 0
    assert audited_actions(user) == ["token_refreshed"]


@pytest.mark.usefixtures("single_session")
def test_last_refresh_decides_which_session_is_newer(api: Api) -> None:
    user = factories.make_user()
    now = timezone.now()
    first = factories.make_session(user, at=now - 60 * SECOND, refreshed_at=now - 10 * SECOND)
    second = factories.make_session(user, at=now - 30 * SECOND)
    assert error_of(refresh(api, second.refresh_token)) == NEWER_LOGIN
    assert rotate(api, first.refresh_token)


@pytest.mark.usefixtures("single_session")
def test_newer_sessions_of_other_users_are_ignored(api: Api) -> None:
    first = factories.make_session()
    factories.make_session()
    assert rotate(api, first.refresh_token)


@pytest.mark.usefixtures("single_session")
def test_newer_expired_session_is_ignored(api: Api) -> None:
    first = factories.make_session()
    second = factories.make_session(first.user, not_after=timezone.now() - SECOND)
    assert rotate(api, first.refresh_token)
    assert error_of(refresh(api, second.refresh_token)) == session_expired()


@pytest.mark.usefixtures("single_session")
def test_legacy_session_is_replaced_by_newer_session_without_changes(api: Api) -> None:
    user = factories.make_user()
    rows = factories.make_legacy_tokens(user, at=timezone.now() - 60 * SECOND)
    factories.make_session(user)
    assert error_of(refresh(api, rows[1].token or "")) == NEWER_LOGIN
    assert LegacyRefreshToken.objects.get(id=rows[1].id).revoked is False


@pytest.mark.parametrize(
    ("tags", "first", "second", "is_accepted"),
    [
        ((), "web", "app", False),
        (("web", "app"), "web", "app", True),
        (("web", "app"), "app", "app", False),
        (("web", "app"), None, "web", False),
        (("web", "app"), "", "unknown", False),
        (("web", "app"), None, "app", True),
    ],
)
def test_single_session_applies_per_tag(
    tags: tuple[str, ...], first: str | None, second: str | None, is_accepted: bool, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(sessions={"single_per_user": True, "tags": tags})
    older = factories.make_session(tag=first)
    factories.make_session(older.user, tag=second)
    response = refresh(api, older.refresh_token)
    assert (response.status_code == 200) is is_accepted
    if not is_accepted:
        assert error_of(response) == NEWER_LOGIN


@pytest.mark.usefixtures("single_session")
def test_client_authentication_is_reported_before_newer_login(api: Api) -> None:
    first = factories.make_session(oauth_client_id=factories.make_user().id)
    factories.make_session(first.user)
    assert refresh(api, first.refresh_token).json()["error"] == "invalid_client"


def test_sessions_are_unlimited_by_default(api: Api) -> None:
    first = factories.make_session()
    factories.make_session(first.user)
    assert rotate(api, first.refresh_token)


# Deletion


def test_deleting_user_deletes_sessions_and_tokens(api: Api) -> None:
    rows = factories.make_legacy_tokens()
    signed_in = factories.make_session(User.objects.get())
    User.objects.all().delete()
    assert not Session.objects.exists()
    assert not AmrClaim.objects.exists()
    assert error_of(refresh(api, rows[1].token or "")) == REFRESH_TOKEN_NOT_FOUND
    status, error_code, _ = error_of(api.get("/user", bearer=signed_in.access_token))
    assert (status, error_code) == (403, "user_not_found")
