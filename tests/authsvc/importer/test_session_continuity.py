"""Sessions, tokens, links and factors of the reference server that work here after the import."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
import pytest
from django.conf import settings

from accounts.models import User
from authsvc.security import crypto
from tests.authsvc.importer.conftest import run
from tests.authsvc.importer.reference import Reference
from tests.conftest import Api, ChangeConfig
from tests.tokens.token_requests import (
    REFRESH_TOKEN_REUSED,
    SESSION_NOT_FOUND,
    error_of,
    exchange_code,
    read_claims,
    refresh,
    rotate,
)
from tokens.models import AmrClaim, LegacyRefreshToken, OneTimeToken, Session
from tokens.sessions import refresh_tokens

pytestmark = pytest.mark.django_db(transaction=True)

EMAIL = "Ada@Example.com"
ADDRESS = "ada@example.com"
LONG_AGO = datetime(2024, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)


def sha224(address: str, code: str) -> str:
    """A digest as the reference server stores and mails it."""
    return hashlib.sha224(f"{address}{code}".encode()).hexdigest()


def sign_in(reference: Reference, **session: Any) -> tuple[UUID, UUID]:
    """IDs of a reference user and of a session."""
    user_id = reference.user(EMAIL, email_confirmed_at=reference.at, last_sign_in_at=LONG_AGO)
    reference.identity(user_id, EMAIL)
    return user_id, reference.session(user_id, **session)


def access_token(user_id: UUID, session_id: UUID) -> str:
    """An access token as the reference server signs it with the shared secret."""
    now = datetime.now(UTC)
    claims = {
        "sub": str(user_id),
        "session_id": str(session_id),
        "aud": "authenticated",
        "role": "authenticated",
        "aal": "aal1",
        "iat": now,
        "exp": now + timedelta(minutes=30),
        "iss": "http://reference.example.com/auth/v1",
        "app_metadata": {},
        "user_metadata": {},
        "is_anonymous": False,
    }
    return jwt.encode(claims, settings.AUTH.jwt.secret.reveal(), algorithm="HS256")


def test_a_counter_token_is_refreshed_in_its_session(api: Api, reference: Reference) -> None:
    key = secrets.token_bytes(32)
    user_id, session_id = sign_in(
        reference, refresh_token_hmac_key=crypto.base64url_encode(key), refresh_token_counter=7
    )
    held = refresh_tokens.encode(session_id=session_id, counter=7, key=key)

    assert run(reference.url).error == ""
    response = refresh(api, held)

    assert response.status_code == 200, response.content
    assert response.json()["refresh_token"] == refresh_tokens.encode(session_id=session_id, counter=8, key=key)
    claims = read_claims(response.json()["access_token"])
    assert (claims["sub"], claims["session_id"]) == (str(user_id), str(session_id))
    assert [entry["method"] for entry in claims["amr"]] == ["password"]
    assert User.objects.get().last_sign_in_at == LONG_AGO


@pytest.mark.parametrize("held", ["ab2c3def4ghi", "Abc-_fghijklmnopqrstuv"], ids=["twelve", "twenty-two"])
def test_a_legacy_refresh_token_is_refreshed_in_its_session(held: str, api: Api, reference: Reference) -> None:
    user_id, session_id = sign_in(reference)
    reference.refresh_token(user_id, "first2345678", revoked=True, session_id=session_id)
    reference.refresh_token(user_id, held, parent="first2345678", session_id=session_id)

    assert run(reference.url).error == ""
    response = refresh(api, held)

    assert response.status_code == 200, response.content
    claims = read_claims(response.json()["access_token"])
    assert claims["session_id"] == str(session_id)
    assert [entry["method"] for entry in claims["amr"]] == ["password"]
    assert User.objects.get().last_sign_in_at == LONG_AGO
    assert rotate(api, response.json()["refresh_token"])


def test_reuse_of_a_token_refreshed_at_the_source_is_detected(api: Api, reference: Reference) -> None:
    user_id, session_id = sign_in(reference)
    for number, token in enumerate(("first2345678", "second345678", "third2345678")):
        parent = ("first2345678", "second345678")[number - 1] if number else None
        reference.refresh_token(user_id, token, parent=parent, revoked=number < 2, session_id=session_id)
    assert run(reference.url).error == ""
    assert error_of(refresh(api, "first2345678")) == REFRESH_TOKEN_REUSED


def test_an_access_token_is_valid_until_it_expires(api: Api, reference: Reference) -> None:
    user_id, session_id = sign_in(reference)
    held = access_token(user_id, session_id)
    assert run(reference.url).error == ""
    response = api.get("/user", bearer=held)
    assert response.status_code == 200, response.content
    body = response.json()
    assert (body["id"], body["email"]) == (str(user_id), ADDRESS)
    assert body["user_metadata"] == {"name": "Ada"}
    assert [identity["provider"] for identity in body["identities"]] == ["email"]


def test_a_signed_out_session_stays_ended(api: Api, reference: Reference) -> None:
    user_id, session_id = sign_in(reference)
    held = access_token(user_id, session_id)
    reference.execute("DELETE FROM auth.sessions")
    assert run(reference.url).error == ""
    assert error_of(api.get("/user", bearer=held)) == SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("stored", "password"),
    [
        pytest.param("$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu", "test", id="bcrypt"),
        pytest.param(
            "$argon2id$v=19$m=32,t=3,p=2$SFVpOWJ0eXhjRzVkdGN1RQ$RXnb8rh7LaDcn07xsssqqulZYXOM/EUCEFMVcAcyYVk",
            "test",
            id="argon2id",
        ),
        pytest.param(
            "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3M"
            "jKj1b2g6AUCAlFwMw==$C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvE"
            "JlM5tQaJP84+hfTw==",
            "mytestpassword",
            id="firebase",
        ),
    ],
)
@pytest.mark.usefixtures("production_hasher")
def test_a_password_is_accepted_and_rehashed(stored: str, password: str, api: Api, reference: Reference) -> None:
    user_id = reference.user(EMAIL, encrypted_password=stored, email_confirmed_at=reference.at)
    reference.identity(user_id, EMAIL)
    assert run(reference.url).error == ""

    def sign_in(text: str) -> int:
        return api.post("/token?grant_type=password", {"email": EMAIL, "password": text}).status_code

    assert sign_in(f"{password}1") == 400
    assert User.objects.get().password == stored
    assert [sign_in(password), sign_in(password)] == [200, 200]
    assert str(User.objects.get().password).startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_a_link_sent_before_the_import_confirms(api: Api, reference: Reference) -> None:
    mailed = sha224(ADDRESS, "123456")
    user_id = reference.user(ADDRESS, confirmation_token=mailed, confirmation_sent_at=reference.at)
    reference.identity(user_id, ADDRESS)
    reference.one_time_token(user_id, "confirmation_token", mailed, ADDRESS)
    assert run(reference.url).error == ""

    response = api.get(f"/verify?token={mailed}&type=signup")

    assert response.status_code == 303, response.content
    assert "access_token=" in response.headers["Location"]
    assert User.objects.get(id=user_id).email_confirmed_at is not None
    assert not OneTimeToken.objects.exists()


def test_a_code_sent_before_the_import_recovers(api: Api, reference: Reference) -> None:
    stored = sha224(ADDRESS, "654321")
    user_id = reference.user(ADDRESS, email_confirmed_at=LONG_AGO, recovery_token=stored, recovery_sent_at=reference.at)
    reference.identity(user_id, ADDRESS)
    reference.one_time_token(user_id, "recovery_token", stored, ADDRESS)
    assert run(reference.url).error == ""

    response = api.post("/verify", {"type": "recovery", "email": ADDRESS, "token": "654321"})

    assert response.status_code == 200, response.content
    assert response.json()["user"]["id"] == str(user_id)


def test_expired_secrets_stay_expired(api: Api, reference: Reference) -> None:
    mailed = sha224(ADDRESS, "123456")
    user_id = reference.user(ADDRESS, confirmation_token=mailed, confirmation_sent_at=LONG_AGO)
    # `created_at` of the table is later; the user row has the time of sending.
    reference.one_time_token(user_id, "confirmation_token", mailed, ADDRESS)
    assert run(reference.url).error == ""
    assert OneTimeToken.objects.get().created_at == LONG_AGO
    assert api.post("/verify", {"type": "signup", "token_hash": mailed}).json()["error_code"] == "otp_expired"


def test_a_flow_started_before_the_import_is_completed(api: Api, reference: Reference) -> None:
    user_id = reference.user(EMAIL, email_confirmed_at=LONG_AGO)
    reference.insert(
        "flow_state",
        id=UUID(int=7),
        user_id=user_id,
        auth_code="d6d0a4b1-2c6a-4b8e-9d1c-7f4c3c0e5a11",
        code_challenge_method="s256",
        code_challenge="UKwdQNKF35xN-bd8EWuVCSHHEA2ew0BQkEPdmM6wEFM",
        provider_type="magiclink",
        authentication_method="magiclink",
        created_at=datetime.now(UTC),
        updated_at=datetime.now(UTC),
        auth_code_issued_at=datetime.now(UTC),
    )
    assert run(reference.url).error == ""
    response = exchange_code(api, "d6d0a4b1-2c6a-4b8e-9d1c-7f4c3c0e5a11")
    assert response.status_code == 200, response.content
    assert response.json()["user"]["id"] == str(user_id)


def test_null_texts_are_read_as_empty(api: Api, reference: Reference) -> None:
    user_id = reference.user(
        EMAIL,
        role=None,
        aud=None,
        email_change=None,
        phone_change=None,
        email_change_confirm_status=None,
        raw_app_meta_data=None,
        raw_user_meta_data=None,
        created_at=None,
        updated_at=None,
        confirmation_token=None,
    )
    reference.execute("UPDATE auth.users SET raw_user_meta_data = 'null'")
    session_id = reference.session(user_id, refresh_token_hmac_key="A" * 43, refresh_token_counter=0)
    assert run(reference.url).error == ""

    # Without an audience GET /user rejects an access token; a refresh ignores the audience.
    response = refresh(api, refresh_tokens.encode(session_id=session_id, counter=0, key=bytes(32)))

    assert response.status_code == 200, response.content
    body = response.json()["user"]
    assert (body["role"], body["aud"], body["phone"]) == ("", "", "")
    assert (body["user_metadata"], body["app_metadata"]) == ({}, {})
    assert body["created_at"] == body["updated_at"]


def test_a_session_with_a_missing_key_is_imported_and_reported(
    api: Api, reference: Reference, auth_config: ChangeConfig
) -> None:
    envelope = (
        '{"key_id":"of-old","alg":"aes-gcm-hkdf","data":"K758joTmMrjQv3HkH2Y0Ap6I9ds=","nonce":"AAECAwQFBgcICQoL"}'
    )
    _, session_id = sign_in(reference, refresh_token_hmac_key=envelope, refresh_token_counter=0)

    ran = run(reference.url)

    assert ran.error == ""
    assert "1 rows are encrypted with the key 'of-old'" in ran.warnings
    assert Session.objects.get().refresh_token_hmac_key == envelope
    held = refresh_tokens.encode(session_id=session_id, counter=0, key=bytes(32))
    assert refresh(api, held).status_code == 500


def test_sessions_are_imported_unchanged(reference: Reference) -> None:
    user_id = reference.user(EMAIL)
    factor_id = UUID(int=9)
    reference.execute("SET TimeZone = 'America/New_York'")
    session_id = reference.session(
        user_id,
        aal="aal2",
        factor_id=factor_id,
        not_after=LONG_AGO,
        refreshed_at=LONG_AGO.replace(tzinfo=None),
        user_agent="tab\there",
        ip="2001:db8::1/64",
        tag="web",
        scopes="openid",
    )
    reference.refresh_token(user_id, "ab2c3def4ghi", id=4711, revoked=None, session_id=session_id)
    assert run(reference.url).error == ""
    session = Session.objects.get()
    assert (session.aal, session.factor_id, session.tag, session.scopes) == ("aal2", factor_id, "web", "openid")
    assert (session.not_after, session.refreshed_at) == (LONG_AGO, LONG_AGO)
    assert (session.user_agent, session.ip) == ("tab\there", "2001:db8::1")
    assert AmrClaim.objects.get().updated_at == reference.at
    token = LegacyRefreshToken.objects.get()
    assert (token.id, token.token, token.revoked) == (4711, crypto.key_digest("ab2c3def4ghi"), False)
    assert (token.created_at, token.updated_at) == (reference.at, reference.at)
