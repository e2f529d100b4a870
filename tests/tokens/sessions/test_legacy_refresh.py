"""POST /token?grant_type=refresh_token with the tokens of an imported database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.tokens.token_requests import (
    REFRESH_TOKEN_NOT_FOUND,
    REFRESH_TOKEN_REUSED,
    audited_actions,
    error_of,
    read_claims,
    refresh,
    rotate,
    session_exists,
)
from tokens.models import LegacyRefreshToken, Session

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
NO_ROTATION = {"rotation_enabled": False}
REUSE_ALLOWED = {"allow_reuse": True}
CONVERSION_ACTIONS = ["token_refreshed", "token_revoked"]


def get_session(row: LegacyRefreshToken) -> Session:
    return Session.objects.get(legacy_tokens=row)


def revoked_flags(rows: list[LegacyRefreshToken]) -> list[bool | None]:
    return [LegacyRefreshToken.objects.get(id=row.id).revoked for row in rows]


def backdate(rows: list[LegacyRefreshToken], *, by: timedelta) -> None:
    factories.backdate(*rows, get_session(rows[0]), by=by)


# Sessions before their conversion


def test_active_legacy_token_is_exchanged_for_counter_token(api: Api) -> None:
    parent, active = rows = factories.make_legacy_tokens()
    backdate(rows, by=timedelta(days=30))
    parent.refresh_from_db()
    before = timezone.now()
    user = User.objects.filter(id=get_session(parent).user_id).values()
    user_before = user.get()

    response = refresh(api, active.token or "", headers={"User-Agent": "a browser"})

    assert response.status_code == 200, response.content
    session = get_session(active)
    assert response.json()["refresh_token"] == factories.refresh_token(session, 0)
    assert read_claims(response.json()["access_token"])["session_id"] == str(session.id)
    assert response.json()["user"]["id"] == str(active.user_id)
    assert session.refresh_token_counter == 0
    assert session.refreshed_at is not None
    assert before <= session.refreshed_at <= timezone.now()
    assert (session.user_agent, session.ip) == ("a browser", "127.0.0.1")
    assert LegacyRefreshToken.objects.count() == 2
    assert revoked_flags(rows) == [True, True]
    used_row = LegacyRefreshToken.objects.get(id=active.id)
    assert used_row.updated_at == session.refreshed_at
    assert LegacyRefreshToken.objects.get(id=parent.id).updated_at == parent.updated_at
    assert user.get() == user_before
    assert audited_actions(User.objects.get()) == CONVERSION_ACTIONS
    assert rotate(api, response.json()["refresh_token"]) == factories.refresh_token(session, 1)


def test_22_character_legacy_token_is_accepted(api: Api) -> None:
    (row,) = factories.make_legacy_tokens(count=1)
    LegacyRefreshToken.objects.filter(id=row.id).update(token="Abc-_fghijklmnopqrstuv")
    assert rotate(api, "Abc-_fghijklmnopqrstuv") == factories.refresh_token(get_session(row), 0)


def test_conversion_revokes_all_legacy_tokens_of_the_session(api: Api) -> None:
    rows = factories.make_legacy_tokens(count=3)
    LegacyRefreshToken.objects.filter(id=rows[0].id).update(revoked=False)
    backdate(rows, by=timedelta(days=1))
    updated_at = LegacyRefreshToken.objects.get(id=rows[0].id).updated_at

    rotate(api, rows[2].token or "")

    assert revoked_flags(rows) == [True, True, True]
    assert LegacyRefreshToken.objects.get(id=rows[0].id).updated_at == updated_at


def test_conversion_leaves_other_sessions_of_the_user(api: Api) -> None:
    user = factories.make_user()
    refreshed_rows = factories.make_legacy_tokens(user)
    other_rows = factories.make_legacy_tokens(user)
    rotate(api, refreshed_rows[1].token or "")
    assert revoked_flags(other_rows) == [True, False]
    assert rotate(api, other_rows[1].token or "") == factories.refresh_token(get_session(other_rows[0]), 0)


# Of the tokens 0 ← 1 ← 2 (active): the presented token, and the seconds since its revocation.
@pytest.mark.parametrize(
    ("refresh_settings", "presented", "seconds"),
    [
        pytest.param({}, 1, 5, id="predecessor inside the interval"),
        pytest.param(NO_ROTATION, 1, 5, id="predecessor inside the interval, rotation off"),
        pytest.param(NO_ROTATION, 1, 5000, id="predecessor after the interval, rotation off"),
        pytest.param(REUSE_ALLOWED, 1, 5000, id="predecessor after the interval, reuse allowed"),
        pytest.param(REUSE_ALLOWED, 0, 5000, id="older, reuse allowed"),
        pytest.param({**NO_ROTATION, **REUSE_ALLOWED}, 0, 5000, id="older, reuse allowed, rotation off"),
    ],
)
def test_revoked_legacy_token_returns_active_token(
    refresh_settings: dict[str, object], presented: int, seconds: int, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=refresh_settings)
    rows = factories.make_legacy_tokens(count=3)
    backdate(rows, by=seconds * SECOND)
    before = timezone.now()

    assert rotate(api, rows[presented].token or "") == rows[2].token

    assert revoked_flags(rows) == [True, True, False]
    session = get_session(rows[0])
    assert (session.refresh_token_hmac_key, session.refresh_token_counter) == (None, None)
    assert session.refreshed_at is not None
    assert session.refreshed_at >= before
    assert audited_actions(User.objects.get()) == ["token_refreshed"]


@pytest.mark.parametrize(
    ("presented", "seconds"),
    [
        pytest.param(1, 11, id="predecessor after the interval"),
        pytest.param(0, 0, id="older, at once"),
        pytest.param(0, 5000, id="older, later"),
    ],
)
def test_reused_legacy_token_revokes_active_token(presented: int, seconds: int, api: Api) -> None:
    rows = factories.make_legacy_tokens(count=3)
    backdate(rows, by=seconds * SECOND)
    before = timezone.now()

    assert error_of(refresh(api, rows[presented].token or "")) == REFRESH_TOKEN_REUSED

    assert revoked_flags(rows) == [True, True, True]
    active_row = LegacyRefreshToken.objects.get(id=rows[2].id)
    assert active_row.updated_at is not None
    assert active_row.updated_at >= before
    assert session_exists(get_session(rows[0]))
    assert audited_actions(User.objects.get()) == ["token_revoked"]
    assert error_of(refresh(api, rows[2].token or "")) == REFRESH_TOKEN_REUSED


@pytest.mark.parametrize("refresh_settings", [{}, REUSE_ALLOWED], ids=["", "reuse allowed"])
def test_revoked_legacy_token_without_active_token_is_reuse(
    refresh_settings: dict[str, object], api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=refresh_settings)
    rows = factories.make_legacy_tokens(active=False)
    assert error_of(refresh(api, rows[1].token or "")) == REFRESH_TOKEN_REUSED
    assert session_exists(get_session(rows[0]))


@pytest.mark.parametrize("active", [True, False])
def test_older_legacy_token_converts_inside_reuse_interval_without_rotation(
    active: bool, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=NO_ROTATION)
    rows = factories.make_legacy_tokens(count=3, active=active)
    backdate(rows, by=5 * SECOND)

    new_token = rotate(api, rows[0].token or "")

    assert new_token == factories.refresh_token(get_session(rows[0]), 0)
    assert revoked_flags(rows) == [True, True, True]
    assert audited_actions(User.objects.get()) == CONVERSION_ACTIONS


@pytest.mark.parametrize("active", [True, False])
def test_older_legacy_token_gets_400_after_reuse_interval_without_rotation(
    active: bool, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=NO_ROTATION)
    rows = factories.make_legacy_tokens(count=3, active=active)
    backdate(rows, by=11 * SECOND)
    before = list(LegacyRefreshToken.objects.order_by("id").values()), Session.objects.values().get()

    assert error_of(refresh(api, rows[0].token or "")) == REFRESH_TOKEN_REUSED

    assert (list(LegacyRefreshToken.objects.order_by("id").values()), Session.objects.values().get()) == before
    assert audited_actions(User.objects.get()) == []


def test_legacy_token_with_null_revoked_counts_as_active(api: Api) -> None:
    (row,) = factories.make_legacy_tokens(count=1)
    LegacyRefreshToken.objects.update(revoked=None)
    assert rotate(api, row.token or "") == factories.refresh_token(get_session(row), 0)


# Sessions after their conversion


def test_converting_token_is_repeatable_until_its_successor_is_used(api: Api) -> None:
    rows = factories.make_legacy_tokens()
    first = rotate(api, rows[1].token or "")
    assert rotate(api, rows[1].token or "") == first
    backdate(rows, by=5 * SECOND)
    assert rotate(api, rows[1].token or "") == first
    assert audited_actions(User.objects.get()) == [*["token_refreshed"] * 3, "token_revoked"]


@pytest.mark.parametrize(
    ("presented", "refreshes", "seconds"),
    [
        pytest.param(1, 0, 11, id="converting token after the interval"),
        pytest.param(1, 1, 0, id="converting token after another refresh"),
        pytest.param(0, 0, 0, id="older token"),
        pytest.param(0, 3, 5000, id="older token, later"),
    ],
)
def test_legacy_token_reused_after_conversion_revokes_session(
    presented: int, refreshes: int, seconds: int, api: Api
) -> None:
    rows = factories.make_legacy_tokens()
    newest = rotate(api, rows[1].token or "")
    for _ in range(refreshes):
        newest = rotate(api, newest)
    backdate(rows, by=seconds * SECOND)
    actions_before = audited_actions(User.objects.get())

    assert error_of(refresh(api, rows[presented].token or "")) == REFRESH_TOKEN_REUSED

    assert not Session.objects.exists()
    assert not LegacyRefreshToken.objects.exists()
    assert audited_actions(User.objects.get()) == [*actions_before, "token_revoked"]
    assert error_of(refresh(api, newest)) == REFRESH_TOKEN_NOT_FOUND


@pytest.mark.parametrize(
    ("refresh_settings", "presented", "refreshes", "seconds", "counter"),
    [
        pytest.param(NO_ROTATION, 1, 0, 5000, 0, id="converting token, rotation off"),
        pytest.param(NO_ROTATION, 1, 1, 5, 1, id="converting token after another refresh, rotation off"),
        pytest.param(
            NO_ROTATION, 1, 1, 11, None, id="converting token after another refresh and the interval, rotation off"
        ),
        pytest.param(NO_ROTATION, 0, 0, 5, 0, id="older token, rotation off"),
        pytest.param(NO_ROTATION, 0, 0, 11, None, id="older token after the interval, rotation off"),
        pytest.param(REUSE_ALLOWED, 1, 3, 5000, 3, id="converting token, reuse allowed"),
        pytest.param(REUSE_ALLOWED, 0, 3, 5000, 3, id="older token, reuse allowed"),
    ],
)
def test_legacy_token_after_conversion_with_lenient_settings(
    refresh_settings: dict[str, object],
    presented: int,
    refreshes: int,
    seconds: int,
    counter: int | None,
    api: Api,
    auth_config: ChangeConfig,
) -> None:
    auth_config(refresh=refresh_settings)
    rows = factories.make_legacy_tokens()
    newest = rotate(api, rows[1].token or "")
    for _ in range(refreshes):
        newest = rotate(api, newest)
    backdate(rows, by=seconds * SECOND)

    response = refresh(api, rows[presented].token or "")

    session = get_session(rows[0])
    assert session.refresh_token_counter == refreshes
    if counter is None:
        assert error_of(response) == REFRESH_TOKEN_REUSED
    else:
        assert response.json()["refresh_token"] == factories.refresh_token(session, counter) == newest


def test_legacy_token_with_null_updated_at_is_not_the_converting_token(api: Api) -> None:
    rows = factories.make_legacy_tokens(count=3)
    LegacyRefreshToken.objects.filter(id=rows[0].id).update(updated_at=None)
    first = rotate(api, rows[2].token or "")
    assert rotate(api, rows[2].token or "") == first


def test_step_up_after_conversion_invalidates_first_counter_token(api: Api) -> None:
    rows = factories.make_legacy_tokens()
    first = rotate(api, rows[1].token or "")
    # A step-up increases the counter by two.
    Session.objects.update(refresh_token_counter=2)
    assert error_of(refresh(api, first)) == REFRESH_TOKEN_REUSED


# Errors


def test_legacy_token_without_session_is_deleted(api: Api) -> None:
    (row,) = factories.make_legacy_tokens(count=1)
    LegacyRefreshToken.objects.update(session=None)
    error = (400, "session_not_found", "Invalid Refresh Token: No Valid Session Found")
    assert error_of(refresh(api, row.token or "")) == error
    assert not LegacyRefreshToken.objects.exists()
    assert error_of(refresh(api, row.token or "")) == REFRESH_TOKEN_NOT_FOUND


def test_banned_user_gets_400(api: Api) -> None:
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    rows = factories.make_legacy_tokens(user)
    response = refresh(api, rows[1].token or "")
    assert error_of(response) == (400, "user_banned", "Invalid Refresh Token: User Banned")
    assert revoked_flags(rows) == [True, False]


def test_expiry_is_reported_before_legacy_token_reuse(api: Api) -> None:
    rows = factories.make_legacy_tokens(not_after=timezone.now() - SECOND)
    for row in rows:
        status, error_code, _ = error_of(refresh(api, row.token or ""))
        assert (status, error_code) == (400, "session_expired")
    assert revoked_flags(rows) == [True, False]


def test_last_use_of_legacy_token_counts_as_activity(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"inactivity_timeout": timedelta(minutes=10)})
    rows = factories.make_legacy_tokens()
    backdate(rows, by=timedelta(hours=1))
    inactive = (400, "session_expired", "Invalid Refresh Token: Session Expired (Inactivity)")
    assert error_of(refresh(api, rows[1].token or "")) == inactive
    LegacyRefreshToken.objects.filter(id=rows[1].id).update(updated_at=timezone.now() - timedelta(minutes=5))
    assert rotate(api, rows[1].token or "")
