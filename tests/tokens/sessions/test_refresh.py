"""POST /token?grant_type=refresh_token with the tokens this service hands out."""

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


def test_a_refresh_token_is_exchanged_for_the_next_of_its_session(api: Api) -> None:
    signed_in = factories.make_session()
    user, session = signed_in.user, signed_in.session
    factories.backdate(session, user, *session.amr_claims.all(), by=timedelta(hours=2))
    user.refresh_from_db()
    before = timezone.now()

    answer = refresh(api, signed_in.refresh_token, headers={"User-Agent": "a browser"})

    assert answer.status_code == 200
    body = answer.json()
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


def test_a_refresh_is_written_on_its_session_and_in_the_audit_trail_alone(api: Api) -> None:
    signed_in = factories.make_session()
    user, session = signed_in.user, signed_in.session
    before = timezone.now()
    rows = User.objects.filter(id=user.id).values()
    as_it_was = rows.get()

    refresh(api, signed_in.refresh_token, headers={"User-Agent": "a browser"})

    key = session.refresh_token_hmac_key
    session.refresh_from_db()
    assert (session.refresh_token_counter, session.refresh_token_hmac_key) == (1, key)
    assert session.refreshed_at is not None
    assert before <= session.refreshed_at <= timezone.now()
    assert (session.user_agent, session.ip, session.aal) == ("a browser", "127.0.0.1", "aal1")
    assert rows.get() == as_it_was
    assert not LegacyRefreshToken.objects.exists()
    assert AmrClaim.objects.count() == 1
    entry = AuditLogEntry.objects.get()
    assert entry.payload == {
        "actor_id": str(user.id),
        "actor_via_sso": False,
        "actor_username": user.email,
        "action": "token_refreshed",
        "log_type": "token",
    }
    assert entry.ip_address == ""


def test_a_caller_without_a_user_agent_leaves_none_on_the_session(api: Api) -> None:
    signed_in = factories.make_session(user_agent="before", ip="192.0.2.7")
    refresh(api, signed_in.refresh_token)
    signed_in.session.refresh_from_db()
    assert (signed_in.session.user_agent, signed_in.session.ip) == (None, "127.0.0.1")


def test_the_token_grows_with_its_counter(api: Api) -> None:
    session = factories.make_session(refresh_token_counter=126).session
    second = rotate(api, factories.refresh_token(session, 126))
    third = rotate(api, second)
    assert (len(second), len(third)) == (51, 52)
    assert third == factories.refresh_token(session, 128)


# How far behind the newest token (5) the presented one is, seconds since the last rotation, and what comes back.
ON, OFF, LENIENT, LENIENT_OFF = (
    {"rotation_enabled": rotating, "allow_reuse": allowing, "reuse_interval": INTERVAL}
    for allowing in (False, True)
    for rotating in (True, False)
)


@pytest.mark.parametrize(
    ("chosen", "behind", "age", "returned"),
    [
        pytest.param(ON, 0, 100, 6, id="newest"),
        pytest.param(OFF, 0, 100, 6, id="newest, rotation off"),
        pytest.param(LENIENT, 0, 100, 6, id="newest, reuse allowed"),
        pytest.param(ON, 1, 5, 5, id="predecessor inside the interval"),
        pytest.param(OFF, 1, 5, 5, id="predecessor, rotation off"),
        pytest.param(OFF, 1, 5000, 5, id="predecessor after the interval, rotation off"),
        pytest.param(LENIENT, 1, 5000, 5, id="predecessor after the interval, reuse allowed"),
        pytest.param(LENIENT, 3, 5000, 5, id="older, reuse allowed"),
        pytest.param(LENIENT_OFF, 3, 5000, 5, id="older, reuse allowed, rotation off"),
        pytest.param(OFF, 3, 5, 5, id="older inside the interval, rotation off"),
    ],
)
def test_a_token_that_is_accepted(
    chosen: dict[str, object], behind: int, age: int, returned: int, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=chosen)
    rotated = timezone.now() - age * SECOND
    signed_in = factories.make_session(refresh_token_counter=5, refreshed_at=rotated)

    answer = refresh(api, factories.refresh_token(signed_in.session, 5 - behind))

    assert answer.status_code == 200, answer.content
    assert answer.json()["refresh_token"] == factories.refresh_token(signed_in.session, returned)
    signed_in.session.refresh_from_db()
    assert signed_in.session.refresh_token_counter == returned
    # Where an interval can end a session, only a rotation moves the time that it is counted from.
    assert (signed_in.session.refreshed_at == rotated) is (returned == 5 and chosen is ON)
    assert audited_actions(signed_in.user) == ["token_refreshed"]


@pytest.mark.parametrize(
    ("behind", "age"),
    [
        pytest.param(1, 11, id="predecessor after the interval"),
        pytest.param(2, 0, id="older than the predecessor, at once"),
        pytest.param(5, 5000, id="much older"),
    ],
)
def test_a_token_used_again_ends_its_session(behind: int, age: int, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(refresh=ON)
    other = factories.make_session()
    signed_in = factories.make_session(other.user, refresh_token_counter=5, refreshed_at=timezone.now() - age * SECOND)

    answer = refresh(api, factories.refresh_token(signed_in.session, 5 - behind))

    assert error_of(answer) == REFRESH_TOKEN_REUSED
    assert not session_exists(signed_in.session)
    assert not AmrClaim.objects.filter(session_id=signed_in.session.id).exists()
    assert session_exists(other.session)
    assert error_of(refresh(api, factories.refresh_token(signed_in.session, 5))) == REFRESH_TOKEN_NOT_FOUND
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == SESSION_NOT_FOUND
    assert audited_actions(signed_in.user) == []


@pytest.mark.parametrize(
    ("chosen", "behind", "age", "refusal"),
    [
        pytest.param(OFF, 2, 11, REFRESH_TOKEN_REUSED, id="older after the interval, rotation off"),
        pytest.param(OFF, 5, 5000, REFRESH_TOKEN_REUSED, id="much older, rotation off"),
        pytest.param(ON, -1, 0, NOT_ISSUED_HERE, id="ahead"),
        pytest.param(OFF, -7, 0, NOT_ISSUED_HERE, id="ahead, rotation off"),
        pytest.param(LENIENT, -1, 0, NOT_ISSUED_HERE, id="ahead, reuse allowed"),
        pytest.param(ON, 5 - (2**63 - 1), 0, NOT_ISSUED_HERE, id="as far ahead as can be"),
    ],
)
def test_a_refused_token_changes_nothing(
    chosen: dict[str, object],
    behind: int,
    age: int,
    refusal: tuple[int, str, str],
    api: Api,
    auth_config: ChangeConfig,
) -> None:
    auth_config(refresh=chosen)
    signed_in = factories.make_session(refresh_token_counter=5, refreshed_at=timezone.now() - age * SECOND)
    rows = Session.objects.filter(id=signed_in.session.id).values()
    as_it_was = rows.get()

    answer = refresh(api, factories.refresh_token(signed_in.session, 5 - behind))

    assert error_of(answer) == refusal
    assert rows.get() == as_it_was
    assert audited_actions(signed_in.user) == []
    assert rotate(api, factories.refresh_token(signed_in.session, 5))


@pytest.mark.parametrize(("age", "status"), [(9, 200), (11, 400)])
def test_before_the_first_refresh_the_interval_counts_from_the_sign_in(age: int, status: int, api: Api) -> None:
    # A step-up moves the counter without a refresh.
    signed_in = factories.make_session(at=timezone.now() - age * SECOND, refresh_token_counter=1)
    assert refresh(api, signed_in.refresh_token).status_code == status
    assert session_exists(signed_in.session) is (status == 200)


def test_a_lost_answer_can_be_fetched_again(api: Api) -> None:
    first = factories.make_session().refresh_token
    second = rotate(api, first)
    assert rotate(api, first) == second
    assert rotate(api, second) == rotate(api, second)


def test_fetching_a_lost_answer_does_not_stretch_the_interval(api: Api) -> None:
    signed_in = factories.make_session()
    rotate(api, signed_in.refresh_token)
    factories.backdate(signed_in.session, by=8 * SECOND)
    rotate(api, signed_in.refresh_token)
    factories.backdate(signed_in.session, by=3 * SECOND)
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_REUSED


def test_a_stolen_token_signs_thief_and_owner_out(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(refresh={"reuse_interval": timedelta(0)})
    signed_in = factories.make_session()
    tokens = [signed_in.refresh_token]
    while len(tokens) < 4:
        tokens.append(rotate(api, tokens[-1]))
    assert error_of(refresh(api, tokens[0])) == REFRESH_TOKEN_REUSED
    for token in reversed(tokens):
        assert error_of(refresh(api, token)) == REFRESH_TOKEN_NOT_FOUND


def test_with_rotation_off_an_old_token_is_refused_and_the_newest_works(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(refresh=OFF)
    signed_in = factories.make_session()
    second = rotate(api, signed_in.refresh_token)
    third = rotate(api, second)
    assert rotate(api, signed_in.refresh_token) == third
    factories.backdate(signed_in.session, by=11 * SECOND)
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_REUSED
    assert rotate(api, second) == third
    assert rotate(api, third) == factories.refresh_token(signed_in.session, 3)


# Strings that are no refresh token


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
def test_a_string_of_another_shape_is_refused_before_anything_is_read(
    text: str, api: Api, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):  # the request limit's
        assert error_of(refresh(api, text)) == NOT_VALID


@pytest.mark.parametrize("body", [{}, {"refresh_token": None}, None, "null"])
def test_a_missing_token_is_refused_like_an_empty_one(body: object, api: Api) -> None:
    answer = api.post("/token?grant_type=refresh_token", "{}" if body is None else body)
    assert error_of(answer) == NOT_VALID


@pytest.mark.parametrize("body", ["", "[]", '{"refresh_token": 5}', '{"refresh_token": ', "grant_type=refresh_token"])
def test_a_body_of_another_shape_is_refused(body: str, api: Api) -> None:
    status, error_code, _ = error_of(api.post("/token?grant_type=refresh_token", body))
    assert (status, error_code) == (400, "bad_json")


@pytest.mark.parametrize("query", ["", "?grant_type=", "?grant_type=foo", "?grant_type=REFRESH_TOKEN"])
def test_an_unknown_grant_is_refused_before_the_body_is_read(query: str, api: Api) -> None:
    answer = api.post(f"/token{query}", "no JSON")
    assert error_of(answer) == (400, "invalid_credentials", "unsupported_grant_type")


@pytest.mark.parametrize(
    "token",
    ["0123456abcde", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAP9aRk-6XCL3qEQuinyNf8s39HoY"],
    ids=["legacy", "older legacy", "counter form of no session"],
)
def test_an_unknown_token_of_a_known_shape_is_not_found(token: str, api: Api) -> None:
    assert error_of(refresh(api, token)) == REFRESH_TOKEN_NOT_FOUND


def test_a_token_sealed_with_another_key_is_not_found(api: Api) -> None:
    session = factories.make_session().session
    for key in (bytes(32), secrets.token_bytes(32)):
        forged = refresh_tokens.encode(session_id=session.id, counter=0, key=key)
        assert error_of(refresh(api, forged)) == REFRESH_TOKEN_NOT_FOUND
    assert session_exists(session)


@pytest.mark.parametrize("column", ["refresh_token_hmac_key", "refresh_token_counter"])
def test_a_session_without_key_or_counter_has_no_tokens_of_this_form(column: str, api: Api) -> None:
    signed_in = factories.make_session()
    Session.objects.filter(id=signed_in.session.id).update(**{column: None})
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_NOT_FOUND
    assert session_exists(signed_in.session)


def test_a_token_whose_session_is_gone_is_not_found(api: Api) -> None:
    signed_in = factories.make_session()
    signed_in.session.delete()
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_NOT_FOUND


def test_a_token_whose_user_is_gone_is_not_found(api: Api) -> None:
    signed_in = factories.make_session()
    User.objects.filter(id=signed_in.user.id).delete()
    assert error_of(refresh(api, signed_in.refresh_token)) == REFRESH_TOKEN_NOT_FOUND


# Sessions that may not go on


def test_a_banned_user_is_refused_until_the_ban_ends(api: Api) -> None:
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    signed_in = factories.make_session(user)
    answer = refresh(api, signed_in.refresh_token)
    assert error_of(answer) == (400, "user_banned", "Invalid Refresh Token: User Banned")
    factories.backdate(user, by=timedelta(hours=2))
    assert rotate(api, signed_in.refresh_token) == factories.refresh_token(signed_in.session, 1)


def test_a_session_of_an_oauth_client_asks_for_the_client(api: Api) -> None:
    signed_in = factories.make_session(oauth_client_id=uuid4())
    answer = refresh(api, signed_in.refresh_token)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "invalid_client",
        "error_description": "Client authentication required for OAuth session",
    }
    signed_in.session.refresh_from_db()
    assert signed_in.session.refresh_token_counter == 0


def test_a_ban_is_told_before_an_expiry_and_an_expiry_before_a_reuse(api: Api) -> None:
    past = timezone.now() - SECOND
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    session = factories.make_session(user, not_after=past, refresh_token_counter=9).session
    old = factories.refresh_token(session, 0)
    assert error_of(refresh(api, old))[1] == "user_banned"
    User.objects.filter(id=user.id).update(banned_until=None)
    assert error_of(refresh(api, old))[1] == "session_expired"
    assert session_exists(session)
    Session.objects.filter(id=session.id).update(not_after=None)
    assert error_of(refresh(api, old)) == REFRESH_TOKEN_REUSED
    assert not session_exists(session)


# The key behind the tokens, encrypted


def encryption_settings(key_id: str, **keys: str) -> dict[str, object]:
    secrets_by_id = {name: Secret(key) for name, key in keys.items()}
    return {
        "encrypt": True,
        "encryption_key_id": key_id,
        "encryption_key": secrets_by_id[key_id],
        "decryption_keys": secrets_by_id,
    }


def test_a_refresh_moves_the_key_under_the_present_encryption(api: Api, auth_config: ChangeConfig) -> None:
    a, b = crypto.generate_key(), crypto.generate_key()
    plain = factories.make_session()
    auth_config(database=encryption_settings("A", A=a))
    sealed = factories.make_session()
    assert '"key_id":"A"' in (sealed.session.refresh_token_hmac_key or "")
    auth_config(database=encryption_settings("B", A=a, B=b))

    for signed_in in (plain, sealed):
        key = encryption.decrypt(signed_in.session.refresh_token_hmac_key or "", bound_to=signed_in.session.id)
        second = rotate(api, signed_in.refresh_token)
        signed_in.session.refresh_from_db()
        stored = signed_in.session.refresh_token_hmac_key or ""
        assert '"key_id":"B"' in stored
        assert encryption.decrypt(stored, bound_to=signed_in.session.id) == key
        rotate(api, second)
        signed_in.session.refresh_from_db()
        assert signed_in.session.refresh_token_hmac_key == stored


def test_an_encrypted_key_stays_as_it_is_when_encryption_is_off(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(database=encryption_settings("A", A=crypto.generate_key()))
    signed_in = factories.make_session()
    auth_config(database={"encrypt": False})
    rotate(api, signed_in.refresh_token)
    assert Session.objects.get().refresh_token_hmac_key == signed_in.session.refresh_token_hmac_key


@pytest.mark.parametrize("bound_to", [None, UUID(int=1)], ids=["key not configured", "envelope of another row"])
def test_a_key_that_cannot_be_decrypted_is_our_failure(
    bound_to: UUID | None, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(database=encryption_settings("A", A=crypto.generate_key()))
    signed_in = factories.make_session()
    if bound_to:
        foreign = encryption.encrypt(crypto.generate_key(), bound_to=bound_to)
        Session.objects.update(refresh_token_hmac_key=foreign)
    else:
        auth_config(database=encryption_settings("B", B=crypto.generate_key()))
    rows = Session.objects.values()
    as_it_was = rows.get()

    answer = refresh(api, signed_in.refresh_token)

    assert error_of(answer) == (
        500,
        "unexpected_failure",
        "Unable to decrypt the refresh token key of the session",
    )
    assert rows.get() == as_it_was
