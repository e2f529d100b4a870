"""POST /token?grant_type=refresh_token with tokens in the counter format."""

from __future__ import annotations

import secrets
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.models import User
from authsvc.conf import Secret
from authsvc.models import AuditLogEntry
from authsvc.security import crypto, encryption
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.observations import audit_payloads
from tests.tokens.token_requests import (
    REFRESH_TOKEN_NOT_FOUND,
    REFRESH_TOKEN_REUSED,
    SESSION_NOT_FOUND,
    audited_actions,
    error_of,
    read_claims,
    refresh,
    rotate,
    session_exists,
)
from tokens.models import AmrClaim, LegacyRefreshToken, Session
from tokens.sessions import refresh_tokens

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
INTERVAL = timedelta(seconds=10)
NOT_ISSUED_HERE = (400, "validation_failed", "Invalid Refresh Token: Not Issued By This Server")
NOT_VALID = (400, "validation_failed", "Refresh token is not valid")


def test_refresh_returns_next_token_of_the_session(api: Api) -> None:
    signed_in = factories.make_session()
    user, session = signed_in.user, signed_in.session
    factories.backdate(session, user, *session.amr_claims.all(), by=timedelta(hours=2))
    user.refresh_from_db()
    before = timezone.now()

    response = refresh(api, signed_in.refresh_token, headers={"User-Agent": "a browser"})

    assert response.status_code == 200
    body = response.json()
    assert set(body) == {"access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user"}
    assert body["token_type"] == "bearer"
    assert body["refresh_token"] == factories.refresh_token(session, 1)
    assert body["user"]["id"] == str(user.id)
    assert body["user"]["email"] == user.email
    claims = read_claims(body["access_token"])
    assert claims["session_id"] == str(session.id)
    assert claims["sub"] == str(user.id)
    assert [entry["method"] for entry in claims["amr"]] == ["password"]
    assert claims["iat"] >= int(before.timestamp())
    assert (body["expires_in"], body["expires_at"]) == (3600, claims["exp"])
    assert claims["exp"] - claims["iat"] == 3600


def test_refresh_changes_only_session_row_and_audit_trail(api: Api) -> None:
    signed_in = factories.make_session()
    user, session = signed_in.user, signed_in.session
    before = timezone.now()
    users = User.objects.filter(id=user.id).values()
    user_before = users.get()

    refresh(api, signed_in.refresh_token, headers={"User-Agent": "a browser"})

    key = session.refresh_token_hmac_key
    session.refresh_from_db()
    assert (session.refresh_token_counter, session.refresh_token_hmac_key) == (1, key)
    assert session.refreshed_at is not None
    assert before <= session.refreshed_at <= timezone.now()
    assert (session.user_agent, session.ip, session.aal) == ("a browser", "127.0.0.1", "aal1")
    assert users.get() == user_before
    assert not LegacyRefreshToken.objects.exists()
    assert AmrClaim.objects.count() == 1
    entry = AuditLogEntry.objects.get()
    [payload] = audit_payloads(with_ids=True)
    assert payload.pop("request_id")
    assert payload == {
        "actor_id": str(user.id),
        "actor_via_sso": False,
        "actor_username": user.email,
        "action": "token_refreshed",
        "log_type": "token",
        "session_id": str(session.id),
    }
    assert entry.ip_address == "127.0.0.1"


def test_refresh_without_user_agent_clears_user_agent_of_session(api: Api) -> None:
    signed_in = factories.make_session(user_agent="before", ip="192.0.2.7")
    refresh(api, signed_in.refresh_token)
    signed_in.session.refresh_from_db()
    assert (signed_in.session.user_agent, signed_in.session.ip) == (None, "127.0.0.1")


def test_token_length_grows_with_counter(api: Api) -> None:
    session = factories.make_session(refresh_token_counter=126).session
    second = rotate(api, factories.refresh_token(session, 126))
    third = rotate(api, second)
    assert (len(second), len(third)) == (51, 52)
    assert third == factories.refresh_token(session, 128)


# Settings, distance to the newest token (counter 5), seconds since the last rotation, and returned counter.
ROTATION, NO_ROTATION, REUSE_ALLOWED, REUSE_ALLOWED_WITHOUT_ROTATION = (
    {"rotation_enabled": rotation, "allow_reuse": reuse, "reuse_interval": INTERVAL}
    for reuse in (False, True)
    for rotation in (True, False)
)


@pytest.mark.parametrize(
    ("refresh_settings", "behind", "age", "returned_counter"),
    [
        pytest.param(ROTATION, 0, 100, 6, id="newest"),
        pytest.param(NO_ROTATION, 0, 100, 6, id="newest, rotation off"),
        pytest.param(REUSE_ALLOWED, 0, 100, 6, id="newest, reuse allowed"),
        pytest.param(ROTATION, 1, 5, 5, id="predecessor inside the interval"),
        pytest.param(NO_ROTATION, 1, 5, 5, id="predecessor, rotation off"),
        pytest.param(NO_ROTATION, 1, 5000, 5, id="predecessor after the interval, rotation off"),
        pytest.param(REUSE_ALLOWED, 1, 5000, 5, id="predecessor after the interval, reuse allowed"),
        pytest.param(REUSE_ALLOWED, 3, 5000, 5, id="older, reuse allowed"),
        pytest.param(REUSE_ALLOWED_WITHOUT_ROTATION, 3, 5000, 5, id="older, reuse allowed, rotation off"),
        pytest.param(NO_ROTATION, 3, 5, 5, id="older inside the interval, rotation off"),
    ],
)
def test_accepted_token_returns_expected_counter(
    refresh_settings: dict[str, object],
    behind: int,
    age: int,
    returned_counter: int,
    api: Api,
    auth_config: ChangeConfig,
) -> None:
    auth_config(refresh=refresh_settings)
    rotated_at = timezone.now() - age * SECOND
    signed_in = factories.make_session(refresh_token_counter=5, refreshed_at=rotated_at)

    response = refresh(api, factories.refresh_token(signed_in.session, 5 - behind))

    assert response.status_code == 200, response.content
    assert response.json()["refresh_token"] == factories.refresh_token(signed_in.session, returned_counter)
    signed_in.session.refresh_from_db()
    assert signed_in.session.refresh_token_counter == returned_counter
    # With rotation, repeating a token must not extend its reuse interval.
    assert (signed_in.session.refreshed_at == rotated_at) is (returned_counter == 5 and refresh_settings is ROTATION)
    assert audited_actions(signed_in.user) == ["token_refreshed"]


@pytest.mark.parametrize(
    ("behind", "age"),
    [
        pytest.param(1, 11, id="predecessor after the interval"),
        pytest.param(2, 0, id="older than the predecessor, at once"),
        pytest.param(5, 5000, id="much older"),
    ],
)
def test_reused_token_revokes_session(behind: int, age: int, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(refresh=ROTATION)
    other = factories.make_session()
    signed_in = factories.make_session(other.user, refresh_token_counter=5, refreshed_at=timezone.now() - age * SECOND)

    response = refresh(api, factories.refresh_token(signed_in.session, 5 - behind))

    assert error_of(response) == REFRESH_TOKEN_REUSED
    assert not session_exists(signed_in.session)
    assert not AmrClaim.objects.filter(session_id=signed_in.session.id).exists()
    assert session_exists(other.session)
    assert error_of(refresh(api, factories.refresh_token(signed_in.session, 5))) == REFRESH_TOKEN_NOT_FOUND
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == SESSION_NOT_FOUND
    assert audited_actions(signed_in.user) == ["token_revoked"]


@pytest.mark.parametrize(
    ("refresh_settings", "behind", "age", "error"),
    [
        pytest.param(NO_ROTATION, 2, 11, REFRESH_TOKEN_REUSED, id="older after the interval, rotation off"),
        pytest.param(NO_ROTATION, 5, 5000, REFRESH_TOKEN_REUSED, id="much older, rotation off"),
        pytest.param(ROTATION, -1, 0, NOT_ISSUED_HERE, id="ahead"),
        pytest.param(NO_ROTATION, -7, 0, NOT_ISSUED_HERE, id="ahead, rotation off"),
        pytest.param(REUSE_ALLOWED, -1, 0, NOT_ISSUED_HERE, id="ahead, reuse allowed"),
        pytest.param(ROTATION, 5 - (2**63 - 1), 0, NOT_ISSUED_HERE, id="ahead, maximum counter"),
    ],
)
def test_rejected_token_changes_nothing(
    refresh_settings: dict[str, object],
    behind: int,
    age: int,
    error: tuple[int, str, str],
    api: Api,
    auth_config: ChangeConfig,
) -> None:
    auth_config(refresh=refresh_settings)
    signed_in = factories.make_session(refresh_token_counter=5, refreshed_at=timezone.now() - age * SECOND)
    rows = Session.objects.filter(id=signed_in.session.id).values()
    row_before = rows.get()

    response = refresh(api, factories.refresh_token(signed_in.session, 5 - behind))

    assert error_of(response) == error
    assert rows.get() == row_before
    assert audited_actions(signed_in.user) == []
    assert rotate(api, factories.refresh_token(signed_in.session, 5))


@pytest.mark.parametrize(("age", "status"), [(5, 200), (11, 400)])
def test_reuse_interval_starts_at_sign_in_before_first_refresh(age: int, status: int, api: Api) -> None:
    # A step-up increases the counter without a refresh.
    signed_in = factories.make_session(at=timezone.now() - age * SECOND, refresh_token_counter=1)
    assert refresh(api, signed_in.refresh_token).status_code == status
    assert session_exists(signed_in.session) is (status == 200)


def test_lost_response_is_repeatable(api: Api) -> None:
    first = factories.make_session().refresh_token
    second = rotate(api, first)
    assert rotate(api, first) == second
    assert rotate(api, second) == rotate(api, second)


def test_repeated_refresh_does_not_extend_reuse_interval(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(refresh={"reuse_interval": timedelta(minutes=10)})
    signed_in = factories.make_session()
    rotate(api, signed_in.refresh_token)
    factories.backdate(signed_in.session, by=timedelta(minutes=8))
    rotate(api, signed_in.refresh_token)
    factories.backdate(signed_in.session, by=timedelta(minutes=3))
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_REUSED


def test_reuse_invalidates_all_tokens_of_the_session(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(refresh={"reuse_interval": timedelta(0)})
    signed_in = factories.make_session()
    tokens = [signed_in.refresh_token]
    while len(tokens) < 4:
        tokens.append(rotate(api, tokens[-1]))
    assert error_of(refresh(api, tokens[0])) == REFRESH_TOKEN_REUSED
    for token in reversed(tokens):
        assert error_of(refresh(api, token)) == REFRESH_TOKEN_NOT_FOUND


def test_old_token_gets_400_and_newest_works_without_rotation(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(refresh=NO_ROTATION)
    signed_in = factories.make_session()
    second = rotate(api, signed_in.refresh_token)
    third = rotate(api, second)
    assert rotate(api, signed_in.refresh_token) == third
    factories.backdate(signed_in.session, by=11 * SECOND)
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_REUSED
    assert rotate(api, second) == third
    assert rotate(api, third) == factories.refresh_token(signed_in.session, 3)


# Invalid tokens


@pytest.mark.parametrize(
    "text",
    [
        "",
        "01234567890",
        "AAAAAAAAAAAA",
        "------------",
        "0000000000000",
        "0123456abcd\n",
        "AKfkrRm9PUihjA4KP0wbLV4A" * 2,
    ],
)
def test_malformed_token_gets_400_without_statements(
    text: str, api: Api, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):  # the rate limit
        assert error_of(refresh(api, text)) == NOT_VALID


@pytest.mark.parametrize("body", [{}, {"refresh_token": None}, None, "null"])
def test_missing_token_gets_400(body: object, api: Api) -> None:
    response = api.post("/token?grant_type=refresh_token", "{}" if body is None else body)
    assert error_of(response) == NOT_VALID


@pytest.mark.parametrize("body", ["", "[]", '{"refresh_token": 5}', '{"refresh_token": ', "grant_type=refresh_token"])
def test_malformed_body_gets_400(body: str, api: Api) -> None:
    status, error_code, _ = error_of(api.post("/token?grant_type=refresh_token", body))
    assert (status, error_code) == (400, "bad_json")


@pytest.mark.parametrize("query", ["", "?grant_type=", "?grant_type=foo", "?grant_type=REFRESH_TOKEN"])
def test_unknown_grant_gets_400_before_body_is_parsed(query: str, api: Api) -> None:
    response = api.post(f"/token{query}", "no JSON")
    assert error_of(response) == (400, "invalid_credentials", "unsupported_grant_type")


@pytest.mark.parametrize(
    "token",
    ["0123456abcde", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAP9aRk-6XCL3qEQuinyNf8s39HoY"],
    ids=["legacy", "older legacy", "counter format without session"],
)
def test_unknown_token_gets_400(token: str, api: Api) -> None:
    assert error_of(refresh(api, token)) == REFRESH_TOKEN_NOT_FOUND


def test_token_signed_with_another_key_gets_400(api: Api) -> None:
    session = factories.make_session().session
    for key in (bytes(32), secrets.token_bytes(32)):
        forged = refresh_tokens.encode(session_id=session.id, counter=0, key=key)
        assert error_of(refresh(api, forged)) == REFRESH_TOKEN_NOT_FOUND
    assert session_exists(session)


@pytest.mark.parametrize("column", ["refresh_token_hmac_key", "refresh_token_counter"])
def test_token_of_session_without_key_or_counter_gets_400(column: str, api: Api) -> None:
    signed_in = factories.make_session()
    Session.objects.filter(id=signed_in.session.id).update(**{column: None})
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_NOT_FOUND
    assert session_exists(signed_in.session)


def test_token_of_deleted_session_gets_400(api: Api) -> None:
    signed_in = factories.make_session()
    signed_in.session.delete()
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_NOT_FOUND


def test_token_of_deleted_user_gets_400(api: Api) -> None:
    signed_in = factories.make_session()
    User.objects.filter(id=signed_in.user.id).delete()
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_NOT_FOUND


# Sessions that must not continue


def test_banned_user_gets_400_until_the_ban_ends(api: Api) -> None:
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    signed_in = factories.make_session(user)
    response = refresh(api, signed_in.refresh_token)
    assert error_of(response) == (400, "user_banned", "Invalid Refresh Token: User Banned")
    factories.backdate(user, by=timedelta(hours=2))
    assert rotate(api, signed_in.refresh_token) == factories.refresh_token(signed_in.session, 1)


def test_session_of_oauth_client_requires_client_authentication(api: Api) -> None:
    signed_in = factories.make_session(oauth_client_id=uuid4())
    response = refresh(api, signed_in.refresh_token)
    assert response.status_code == 400
    assert response.json() == {
        "error": "invalid_client",
        "error_description": "Client authentication required for OAuth session",
    }
    signed_in.session.refresh_from_db()
    assert signed_in.session.refresh_token_counter == 0


def test_ban_is_reported_before_expiry_and_expiry_before_reuse(api: Api) -> None:
    past = timezone.now() - SECOND
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    session = factories.make_session(user, not_after=past, refresh_token_counter=9).session
    reused = factories.refresh_token(session, 0)
    assert error_of(refresh(api, reused))[1] == "user_banned"
    User.objects.filter(id=user.id).update(banned_until=None)
    assert error_of(refresh(api, reused))[1] == "session_expired"
    assert session_exists(session)
    Session.objects.filter(id=session.id).update(not_after=None)
    assert error_of(refresh(api, reused)) == REFRESH_TOKEN_REUSED
    assert not session_exists(session)


# Encryption of the signing key of a session


def encryption_settings(key_id: str, **keys: str) -> dict[str, object]:
    secrets_by_id = {name: Secret(key) for name, key in keys.items()}
    return {
        "encrypt": True,
        "encryption_key_id": key_id,
        "encryption_key": secrets_by_id[key_id],
        "decryption_keys": secrets_by_id,
    }


def test_refresh_reencrypts_key_with_current_encryption_key(api: Api, auth_config: ChangeConfig) -> None:
    key_a, key_b = crypto.generate_key(), crypto.generate_key()
    plain = factories.make_session()
    auth_config(database=encryption_settings("A", A=key_a))
    encrypted = factories.make_session()
    assert '"key_id":"A"' in (encrypted.session.refresh_token_hmac_key or "")
    auth_config(database=encryption_settings("B", A=key_a, B=key_b))

    for signed_in in (plain, encrypted):
        key = encryption.decrypt(signed_in.session.refresh_token_hmac_key or "", bound_to=signed_in.session.id)
        second = rotate(api, signed_in.refresh_token)
        signed_in.session.refresh_from_db()
        stored = signed_in.session.refresh_token_hmac_key or ""
        assert '"key_id":"B"' in stored
        assert encryption.decrypt(stored, bound_to=signed_in.session.id) == key
        rotate(api, second)
        signed_in.session.refresh_from_db()
        assert signed_in.session.refresh_token_hmac_key == stored


def test_encrypted_key_stays_encrypted_after_encryption_is_disabled(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(database=encryption_settings("A", A=crypto.generate_key()))
    signed_in = factories.make_session()
    auth_config(database={"encrypt": False})
    rotate(api, signed_in.refresh_token)
    assert Session.objects.get().refresh_token_hmac_key == signed_in.session.refresh_token_hmac_key


@pytest.mark.parametrize("bound_to", [None, UUID(int=1)], ids=["key not configured", "key of another row"])
def test_undecryptable_key_gets_500(bound_to: UUID | None, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(database=encryption_settings("A", A=crypto.generate_key()))
    signed_in = factories.make_session()
    if bound_to:
        key_of_other_row = encryption.encrypt(crypto.generate_key(), bound_to=bound_to)
        Session.objects.update(refresh_token_hmac_key=key_of_other_row)
    else:
        auth_config(database=encryption_settings("B", B=crypto.generate_key()))
    rows = Session.objects.values()
    row_before = rows.get()

    response = refresh(api, signed_in.refresh_token)

    assert error_of(response) == (
        500,
        "unexpected_failure",
        "Unable to decrypt the refresh token key of the session",
    )
    assert rows.get() == row_before
