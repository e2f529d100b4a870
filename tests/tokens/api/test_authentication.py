"""The bearer check as every endpoint for signed-in users makes it, seen through GET /user."""

from __future__ import annotations

import base64
import hmac
import json
import time
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.utils import timezone

from accounts.models import User
from authsvc.security import crypto
from tests import factories
from tests.conftest import Answer, Api, ChangeConfig
from tests.factories import SignIn
from tests.tokens.token_requests import SESSION_NOT_FOUND, error_of, read_claims
from tokens.jwt import signing_keys

pytestmark = pytest.mark.django_db

NO_AUTHORIZATION = (401, "no_authorization", "This endpoint requires a valid Bearer token")
UNVERIFIABLE = "invalid JWT: unable to parse or verify signature, "
MISSING: Any = object()


@pytest.fixture
def signed_in() -> SignIn:
    return factories.make_session()


def token_with(signed_in: SignIn, **changes: Any) -> str:
    """The access token with other claims, properly signed; MISSING takes a claim away."""
    claims = read_claims(signed_in.access_token) | changes
    kept = {name: value for name, value in claims.items() if value is not MISSING}
    return jwt.encode(kept, settings.AUTH.jwt.secret.reveal())


def segment(content: dict[str, Any]) -> str:
    return crypto.base64url_encode(json.dumps(content).encode())


def ask(api: Api, header: str) -> Answer:
    return api.get("/user", headers={"Authorization": header})


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_user_behind_a_token_is_told(scheme: str, signed_in: SignIn, api: Api) -> None:
    answer = ask(api, f"{scheme} {signed_in.access_token}")
    assert answer.status_code == 200
    assert answer.json()["id"] == str(signed_in.user.id)


@pytest.mark.parametrize(
    "header", ["", "{token}", "Basic {token}", "Bearer", "Bearer ", "Bearer  {token}", "Bearer {token} x", " {token}"]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/user"), ("POST", "/logout")])
def test_a_header_without_a_bearer_token(method: str, path: str, header: str, signed_in: SignIn, api: Api) -> None:
    sent = header.format(token=signed_in.access_token)
    answer = api.request(method, path, headers={"Authorization": sent} if sent else {})
    assert error_of(answer) == NO_AUTHORIZATION


def test_a_token_anywhere_else_is_not_looked_for(signed_in: SignIn, api: Api) -> None:
    assert api.get(f"/user?access_token={signed_in.access_token}").status_code == 401
    assert api.get("/user", headers={"Cookie": f"access_token={signed_in.access_token}"}).status_code == 401


@pytest.mark.parametrize(
    ("token", "detail"),
    [
        ("nonsense", "token is malformed: token contains an invalid number of segments"),
        ("a.b.c.d", "token is malformed: token contains an invalid number of segments"),
        ("!.b.c", "token is malformed: could not base64 decode header: "),
        ("e30.b.c", "token is malformed: could not base64 decode claim: "),
        ("e30.e30.", "token is unverifiable: signing method (alg) is unspecified"),
    ],
)
def test_a_token_that_is_none(token: str, detail: str, api: Api) -> None:
    status, error_code, message = error_of(api.get("/user", bearer=token))
    assert (status, error_code) == (403, "bad_jwt")
    assert message.startswith(UNVERIFIABLE + detail)


def test_an_unsigned_token_is_refused(signed_in: SignIn, api: Api) -> None:
    unsigned = f"{segment({'alg': 'none'})}.{segment(read_claims(signed_in.access_token))}."
    message = UNVERIFIABLE + "token signature is invalid: signing method none is invalid"
    assert error_of(api.get("/user", bearer=unsigned)) == (403, "bad_jwt", message)


def test_a_token_signed_by_somebody_else_is_refused(signed_in: SignIn, api: Api) -> None:
    forged = jwt.encode(read_claims(signed_in.access_token), "another secret of at least 32 characters")
    message = UNVERIFIABLE + "token signature is invalid: signature is invalid"
    assert error_of(api.get("/user", bearer=forged)) == (403, "bad_jwt", message)


def test_a_changed_token_is_refused(signed_in: SignIn, api: Api) -> None:
    header, _, signature = signed_in.access_token.split(".")
    other = factories.make_session().access_token.split(".")[1]
    assert error_of(api.get("/user", bearer=f"{header}.{other}.{signature}"))[:2] == (403, "bad_jwt")


def test_a_key_nobody_configured_is_refused(signed_in: SignIn, api: Api) -> None:
    stranger = rsa.generate_private_key(65537, 2048)
    token = jwt.encode(read_claims(signed_in.access_token), stranger, "RS256", headers={"kid": "stranger"})
    assert error_of(api.get("/user", bearer=token))[:2] == (403, "bad_jwt")


def test_a_published_key_is_no_shared_secret(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(
        jwt={"keys": (signing_keys.generate(algorithm="RS256") | {"kid": "here"},), "valid_methods": ("RS256", "HS256")}
    )
    signed_in = factories.make_session()
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200
    (published,) = api.get("/.well-known/jwks.json").json()["keys"]
    public = jwt.PyJWK(published).key
    claims = read_claims(signed_in.access_token)
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        base64.urlsafe_b64decode(published["n"] + "=="),
    ):
        signed = f"{segment({'alg': 'HS256', 'kid': 'here'})}.{segment(claims)}"
        token = f"{signed}.{crypto.base64url_encode(hmac.digest(secret, signed.encode(), 'sha256'))}"
        assert error_of(api.get("/user", bearer=token))[:2] == (403, "bad_jwt")


@pytest.mark.parametrize(
    ("claim", "seconds", "detail"),
    [
        ("exp", 0, "token has invalid claims: token is expired"),
        ("exp", -3600, "token has invalid claims: token is expired"),
        ("nbf", 60, "token has invalid claims: token is not valid yet"),
    ],
)
def test_a_token_out_of_its_time(claim: str, seconds: int, detail: str, signed_in: SignIn, api: Api) -> None:
    token = token_with(signed_in, **{claim: int(time.time()) + seconds})
    assert error_of(api.get("/user", bearer=token)) == (403, "bad_jwt", UNVERIFIABLE + detail)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": MISSING},
        {"session_id": MISSING},
        {"session_id": str(UUID(int=0))},
        {"session_id": ""},
        {"session_id": None},
        {"aud": ["authenticated", "others"]},
        {"amr": ["password"]},
        {"amr": None},
        {"iss": "https://elsewhere.example"},
        {"unheard": {"of": 1}},
    ],
)
def test_claims_that_are_accepted(changes: dict[str, Any], signed_in: SignIn, api: Api) -> None:
    assert api.get("/user", bearer=token_with(signed_in, **changes)).status_code == 200


MISSING_SUB = (403, "bad_jwt", "invalid claim: missing sub claim")
SUB_NO_UUID = (400, "bad_jwt", "invalid claim: sub claim must be a UUID")
NO_USER = (403, "user_not_found", "User from sub claim in JWT does not exist")
SESSION_NO_UUID = (403, "bad_jwt", "invalid claim: session_id claim must be a UUID")


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"sub": MISSING}, MISSING_SUB),
        ({"sub": ""}, MISSING_SUB),
        ({"sub": "x"}, SUB_NO_UUID),
        ({"sub": "x", "session_id": "y"}, SUB_NO_UUID),
        ({"sub": str(uuid4())}, NO_USER),
        ({"sub": str(uuid4()), "session_id": "y"}, NO_USER),
        ({"session_id": "y"}, SESSION_NO_UUID),
        ({"session_id": str(uuid4())}, SESSION_NOT_FOUND),
    ],
)
def test_claims_that_are_refused(
    changes: dict[str, Any], refusal: tuple[int, str, str], signed_in: SignIn, api: Api
) -> None:
    assert error_of(api.get("/user", bearer=token_with(signed_in, **changes))) == refusal


def test_a_claim_of_another_type_is_refused(signed_in: SignIn, api: Api) -> None:
    for changes in ({"role": ["a"]}, {"aud": 5}, {"exp": "soon"}):
        status, error_code, message = error_of(api.get("/user", bearer=token_with(signed_in, **changes)))
        assert (status, error_code) == (403, "bad_jwt")
        assert "could not JSON decode claim: " in message


def test_a_session_of_another_user_is_not_the_token_s(signed_in: SignIn, api: Api) -> None:
    other = factories.make_session()
    token = token_with(signed_in, session_id=str(other.session.id))
    assert error_of(api.get("/user", bearer=token)) == SESSION_NOT_FOUND


def test_a_ban_holds_for_as_long_as_it_lasts(signed_in: SignIn, api: Api) -> None:
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    banned = (403, "user_banned", "User is banned")
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == banned
    assert error_of(api.post("/logout", bearer=signed_in.access_token)) == banned
    User.objects.update(banned_until=timezone.now() - timedelta(seconds=1))
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200


def test_a_missing_session_is_told_before_a_ban(signed_in: SignIn, api: Api) -> None:
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    signed_in.session.delete()
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == SESSION_NOT_FOUND


def test_a_token_seen_before_is_asked_about_again(signed_in: SignIn, api: Api) -> None:
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200
    signed_in.session.delete()
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == SESSION_NOT_FOUND
    User.objects.all().delete()
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == NO_USER


MISMATCH = (400, "validation_failed", "Token audience doesn't match request audience")


@pytest.mark.parametrize(
    ("changes", "asked", "refusal"),
    [
        ({}, "", None),
        ({}, "authenticated", None),
        ({}, "others", MISMATCH),
        ({"aud": "others"}, "", None),
        ({"aud": "others"}, "others", None),
        ({"aud": "others"}, "authenticated", MISMATCH),
        ({"aud": ["authenticated", "others"]}, "others", MISMATCH),
        ({"aud": MISSING}, "", MISMATCH),
        ({"aud": []}, "", MISMATCH),
        ({"aud": "others", "role": "service_role"}, "", MISMATCH),
        ({"aud": "authenticated", "role": "service_role"}, "", None),
    ],
)
def test_the_audience_asked_for_is_the_token_s_first(
    changes: dict[str, Any], asked: str, refusal: tuple[int, str, str] | None, signed_in: SignIn, api: Api
) -> None:
    token = token_with(signed_in, **changes)
    answer = api.get("/user", bearer=token, headers={"X-JWT-AUD": asked} if asked else {})
    assert (error_of(answer) if answer.status_code != 200 else None) == refusal


def test_a_service_without_an_audience_works(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"aud": ""})
    user = factories.make_user(audience="")
    body = api.post("/token?grant_type=password", {"email": user.email, "password": factories.PASSWORD}).json()
    assert read_claims(body["access_token"])["aud"] == ""
    assert api.get("/user", bearer=body["access_token"]).json()["aud"] == ""
