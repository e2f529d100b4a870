"""Bearer authentication of requests, tested with GET /user and POST /logout."""

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
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import SignIn
from tests.tokens.token_requests import SESSION_NOT_FOUND, error_of, read_claims
from tokens.jwt import signing_keys

pytestmark = pytest.mark.django_db

NO_AUTHORIZATION = (401, "no_authorization", "This endpoint requires a valid Bearer token")
BAD_JWT_PREFIX = "invalid JWT: unable to parse or verify signature, "
MISSING: Any = object()


@pytest.fixture
def signed_in() -> SignIn:
    return factories.make_session()


def encode_token(signed_in: SignIn, **changes: Any) -> str:
    """The access token with changed claims and a valid signature; MISSING removes a claim."""
    claims = read_claims(signed_in.access_token) | changes
    claims = {name: value for name, value in claims.items() if value is not MISSING}
    return jwt.encode(claims, settings.AUTH.jwt.secret.reveal())


def segment(content: dict[str, Any]) -> str:
    return crypto.base64url_encode(json.dumps(content).encode())


def get_user(api: Api, header: str) -> ApiResponse:
    return api.get("/user", headers={"Authorization": header})


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_bearer_scheme_is_case_insensitive(scheme: str, signed_in: SignIn, api: Api) -> None:
    response = get_user(api, f"{scheme} {signed_in.access_token}")
    assert response.status_code == 200
    assert response.json()["id"] == str(signed_in.user.id)


@pytest.mark.parametrize(
    "header", ["", "{token}", "Basic {token}", "Bearer", "Bearer ", "Bearer  {token}", "Bearer {token} x", " {token}"]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/user"), ("POST", "/logout")])
def test_header_without_bearer_token_gets_401(method: str, path: str, header: str, signed_in: SignIn, api: Api) -> None:
    value = header.format(token=signed_in.access_token)
    response = api.request(method, path, headers={"Authorization": value} if value else {})
    assert error_of(response) == NO_AUTHORIZATION


def test_token_in_query_or_cookie_gets_401(signed_in: SignIn, api: Api) -> None:
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
def test_malformed_token_gets_403(token: str, detail: str, api: Api) -> None:
    status, error_code, message = error_of(api.get("/user", bearer=token))
    assert (status, error_code) == (403, "bad_jwt")
    assert message.startswith(BAD_JWT_PREFIX + detail)


def test_unsigned_token_gets_403(signed_in: SignIn, api: Api) -> None:
    unsigned = f"{segment({'alg': 'none'})}.{segment(read_claims(signed_in.access_token))}."
    message = BAD_JWT_PREFIX + "token signature is invalid: signing method none is invalid"
    assert error_of(api.get("/user", bearer=unsigned)) == (403, "bad_jwt", message)


def test_token_signed_with_another_secret_gets_403(signed_in: SignIn, api: Api) -> None:
    forged = jwt.encode(read_claims(signed_in.access_token), "another secret of at least 32 characters")
    message = BAD_JWT_PREFIX + "token signature is invalid: signature is invalid"
    assert error_of(api.get("/user", bearer=forged)) == (403, "bad_jwt", message)


def test_token_with_changed_payload_gets_403(signed_in: SignIn, api: Api) -> None:
    header, _, signature = signed_in.access_token.split(".")
    other_payload = factories.make_session().access_token.split(".")[1]
    assert error_of(api.get("/user", bearer=f"{header}.{other_payload}.{signature}"))[:2] == (403, "bad_jwt")


def test_token_signed_with_unknown_key_gets_403(signed_in: SignIn, api: Api) -> None:
    unknown_key = rsa.generate_private_key(65537, 2048)
    token = jwt.encode(read_claims(signed_in.access_token), unknown_key, "RS256", headers={"kid": "unknown"})
    assert error_of(api.get("/user", bearer=token))[:2] == (403, "bad_jwt")


def test_token_signed_with_public_key_as_secret_gets_403(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(
        jwt={"keys": (signing_keys.generate(algorithm="RS256") | {"kid": "rsa"},), "valid_methods": ("RS256", "HS256")}
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
def test_token_outside_validity_period_gets_403(
    claim: str, seconds: int, detail: str, signed_in: SignIn, api: Api
) -> None:
    token = encode_token(signed_in, **{claim: int(time.time()) + seconds})
    assert error_of(api.get("/user", bearer=token)) == (403, "bad_jwt", BAD_JWT_PREFIX + detail)


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
        {"unknown": {"claim": 1}},
    ],
)
def test_accepted_claims_get_200(changes: dict[str, Any], signed_in: SignIn, api: Api) -> None:
    assert api.get("/user", bearer=encode_token(signed_in, **changes)).status_code == 200


MISSING_SUBJECT = (403, "bad_jwt", "invalid claim: missing sub claim")
SUBJECT_NOT_A_UUID = (400, "bad_jwt", "invalid claim: sub claim must be a UUID")
USER_NOT_FOUND = (403, "user_not_found", "User from sub claim in JWT does not exist")
SESSION_ID_NOT_A_UUID = (403, "bad_jwt", "invalid claim: session_id claim must be a UUID")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"sub": MISSING}, MISSING_SUBJECT),
        ({"sub": ""}, MISSING_SUBJECT),
        ({"sub": "x"}, SUBJECT_NOT_A_UUID),
        ({"sub": "x", "session_id": "y"}, SUBJECT_NOT_A_UUID),
        ({"sub": str(uuid4())}, USER_NOT_FOUND),
        ({"sub": str(uuid4()), "session_id": "y"}, USER_NOT_FOUND),
        ({"session_id": "y"}, SESSION_ID_NOT_A_UUID),
        ({"session_id": str(uuid4())}, SESSION_NOT_FOUND),
    ],
)
def test_rejected_claims_get_documented_error(
    changes: dict[str, Any], error: tuple[int, str, str], signed_in: SignIn, api: Api
) -> None:
    assert error_of(api.get("/user", bearer=encode_token(signed_in, **changes))) == error


def test_claim_of_wrong_type_gets_403(signed_in: SignIn, api: Api) -> None:
    for changes in ({"role": ["a"]}, {"aud": 5}, {"exp": "soon"}):
        status, error_code, message = error_of(api.get("/user", bearer=encode_token(signed_in, **changes)))
        assert (status, error_code) == (403, "bad_jwt")
        assert "could not JSON decode claim: " in message


def test_session_of_another_user_gets_403(signed_in: SignIn, api: Api) -> None:
    other = factories.make_session()
    token = encode_token(signed_in, session_id=str(other.session.id))
    assert error_of(api.get("/user", bearer=token)) == SESSION_NOT_FOUND


def test_banned_user_gets_403_until_the_ban_ends(signed_in: SignIn, api: Api) -> None:
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    banned = (403, "user_banned", "User is banned")
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == banned
    assert error_of(api.post("/logout", bearer=signed_in.access_token)) == banned
    User.objects.update(banned_until=timezone.now() - timedelta(seconds=1))
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200


def test_missing_session_is_reported_before_ban(signed_in: SignIn, api: Api) -> None:
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    signed_in.session.delete()
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == SESSION_NOT_FOUND


def test_session_and_user_of_cached_token_are_checked_on_each_request(signed_in: SignIn, api: Api) -> None:
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200
    signed_in.session.delete()
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == SESSION_NOT_FOUND
    User.objects.all().delete()
    assert error_of(api.get("/user", bearer=signed_in.access_token)) == USER_NOT_FOUND


AUDIENCE_MISMATCH = (400, "validation_failed", "Token audience doesn't match request audience")


@pytest.mark.parametrize(
    ("changes", "requested_audience", "error"),
    [
        ({}, "", None),
        ({}, "authenticated", None),
        ({}, "others", AUDIENCE_MISMATCH),
        ({"aud": "others"}, "", None),
        ({"aud": "others"}, "others", None),
        ({"aud": "others"}, "authenticated", AUDIENCE_MISMATCH),
        ({"aud": ["authenticated", "others"]}, "others", AUDIENCE_MISMATCH),
        ({"aud": MISSING}, "", AUDIENCE_MISMATCH),
        ({"aud": []}, "", AUDIENCE_MISMATCH),
        ({"aud": "others", "role": "service_role"}, "", AUDIENCE_MISMATCH),
        ({"aud": "authenticated", "role": "service_role"}, "", None),
    ],
)
def test_requested_audience_must_be_first_audience_of_token(
    changes: dict[str, Any], requested_audience: str, error: tuple[int, str, str] | None, signed_in: SignIn, api: Api
) -> None:
    token = encode_token(signed_in, **changes)
    response = api.get("/user", bearer=token, headers={"X-JWT-AUD": requested_audience} if requested_audience else {})
    assert (error_of(response) if response.status_code != 200 else None) == error


def test_empty_default_audience_works(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"aud": ""})
    user = factories.make_user(audience="")
    body = api.post("/token?grant_type=password", {"email": user.email, "password": factories.PASSWORD}).json()
    assert read_claims(body["access_token"])["aud"] == ""
    assert api.get("/user", bearer=body["access_token"]).json()["aud"] == ""
