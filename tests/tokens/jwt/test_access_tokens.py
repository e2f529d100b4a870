"""What an access token says, for how long, and every way in which a presented one is refused."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from authsvc.conf import Secret
from tests.conftest import ChangeConfig
from tokens.jwt import access_tokens, signing_keys
from tokens.jwt.access_tokens import AmrEntry, BadJwt
from tokens.sessions import lifecycle
from tokens.sessions.users import SessionRecord

AT = datetime(2026, 1, 1, tzinfo=UTC)
NOW = 1767225600
SECRET = "a secret of at least thirty-two characters"
USER_ID = UUID("6f2b8c1e-8d0a-4c53-9d2c-2b7a3f0f5f10")
SESSION_ID = UUID("a7e4ad19-bd3d-48a1-8c0e-0a3f4c1b2d5e")
CLIENT_ID = UUID("0d8f3f2a-77c1-4f0e-8f7d-6d1c0a9b8e77")
UNCHECKED: jwt.types.Options = {"verify_aud": False, "verify_exp": False}
PREFIX = "invalid JWT: unable to parse or verify signature, "


@dataclass(frozen=True, kw_only=True)
class Person:
    id: UUID = USER_ID
    aud: str = "authenticated"
    role: str = "authenticated"
    email: str = "user@example.com"
    phone: str = ""
    is_sso_user: bool = False
    full_name: object = None
    app_metadata_json: str = '{"provider": "email", "providers": ["email"]}'
    user_metadata_json: str = '{"name": "Grüße"}'
    is_anonymous: bool = False
    banned_until: datetime | None = None
    has_verified_factor: bool = False


@functools.cache
def generated(algorithm: str, kid: str) -> dict[str, Any]:
    return signing_keys.generate(algorithm=algorithm) | {"kid": kid}


def session(*, created_at: datetime = AT, **fields: Any) -> SessionRecord:
    return SessionRecord(id=SESSION_ID, user_id=USER_ID, created_at=created_at, **fields)


def segment(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def hs256(claims: Any, *, header: Any = None, secret: bytes = SECRET.encode()) -> str:
    """A token put together by hand, so that it can say what no library would sign."""
    signed = f"{segment(header or {'alg': 'HS256'})}.{segment(claims)}"
    return f"{signed}.{segment(hmac.digest(secret, signed.encode(), 'sha256'))}"


def refusal(token: str, *, at: datetime = AT) -> str:
    with pytest.raises(BadJwt) as caught:
        access_tokens.decode(token, at=at)
    assert (caught.value.status, caught.value.error_code) == (403, "bad_jwt")
    assert caught.value.message.startswith(PREFIX)
    return caught.value.message.removeprefix(PREFIX)


@pytest.fixture(autouse=True)
def secret_only(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"secret": Secret(SECRET), "keys": (), "key_id": "", "issuer": "", "exp": timedelta(hours=1)})


@pytest.fixture
def rsa_key(auth_config: ChangeConfig) -> dict[str, Any]:
    jwk = generated("RS256", "rsa")
    auth_config(jwt={"keys": (jwk,)})
    return jwk


# Issuing


def test_a_token_says_who_acts_in_which_session_in_the_documented_order(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"issuer": "https://auth.example.com"})
    issued = lifecycle.issue_access_token(
        user=Person(), session=session(), amr=[AmrEntry("password", AT)], at=AT + timedelta(milliseconds=900)
    )
    claims = jwt.decode(issued.token, SECRET, algorithms=["HS256"], options=UNCHECKED)
    assert list(claims.items()) == [
        ("iss", "https://auth.example.com"),
        ("sub", str(USER_ID)),
        ("aud", "authenticated"),
        ("exp", NOW + 3600),
        ("iat", NOW),
        ("email", "user@example.com"),
        ("phone", ""),
        ("app_metadata", {"provider": "email", "providers": ["email"]}),
        ("user_metadata", {"name": "Grüße"}),
        ("role", "authenticated"),
        ("aal", "aal1"),
        ("amr", [{"method": "password", "timestamp": NOW}]),
        ("session_id", str(SESSION_ID)),
        ("is_anonymous", False),
    ]
    assert (issued.expires_in, issued.expires_at) == (3600, NOW + 3600)
    assert issued.token not in repr(issued)


def test_absent_things_are_left_out_or_empty_as_documented() -> None:
    person = Person(aud="", role="", email="", app_metadata_json="{}", user_metadata_json="{}", is_anonymous=True)
    issued = lifecycle.issue_access_token(user=person, session=session(), amr=[], at=AT)
    claims = access_tokens.decode(issued.token, at=AT).raw
    assert not {"iss", "amr", "client_id", "scope", "nbf", "jti"} & claims.keys()
    assert (claims["aud"], claims["role"], claims["email"], claims["app_metadata"]) == ("", "", "", {})
    assert claims["is_anonymous"] is True


def test_a_session_of_an_oauth_client_names_client_and_scope() -> None:
    oauth_session = session(oauth_client_id=CLIENT_ID, scopes="openid email")
    issued = lifecycle.issue_access_token(user=Person(), session=oauth_session, amr=[], at=AT)
    claims = access_tokens.decode(issued.token, at=AT).raw
    assert (claims["client_id"], claims["scope"]) == (str(CLIENT_ID), "openid email")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_token_is_signed_with_the_configured_key(auth_config: ChangeConfig, algorithm: str) -> None:
    auth_config(jwt={"keys": (generated(algorithm, "k1"),)})
    issued = lifecycle.issue_access_token(user=Person(), session=session(), amr=[], at=AT)
    assert jwt.get_unverified_header(issued.token) == {"alg": algorithm, "kid": "k1", "typ": "JWT"}
    public = jwt.PyJWK(signing_keys.current().jwks()["keys"][0])
    assert jwt.decode(issued.token, public, algorithms=[algorithm], options=UNCHECKED)["sub"] == str(USER_ID)
    assert access_tokens.decode(issued.token, at=AT).sub == str(USER_ID)


@pytest.mark.parametrize(
    ("methods", "has_factor", "age", "lifetime"),
    [
        pytest.param(["password"], True, timedelta(0), 300, id="first factor only"),
        pytest.param(["password"], True, timedelta(seconds=100), 200, id="first factor only, older session"),
        pytest.param(["password", "totp"], True, timedelta(0), 3600, id="both factors"),
        pytest.param(["password"], False, timedelta(0), 3600, id="no second factor enrolled"),
    ],
)
def test_a_low_level_session_gets_tokens_no_longer_than_it_is_allowed_itself(
    auth_config: ChangeConfig, methods: list[str], has_factor: bool, age: timedelta, lifetime: int
) -> None:
    auth_config(sessions={"allow_low_aal": timedelta(minutes=5)})
    issued = lifecycle.issue_access_token(
        user=Person(has_verified_factor=has_factor),
        session=session(created_at=AT - age),
        amr=[AmrEntry(method, AT) for method in methods],
        at=AT,
    )
    assert (issued.expires_in, issued.expires_at) == (lifetime, NOW + lifetime)


def test_the_limit_of_low_level_sessions_never_lengthens_a_token(auth_config: ChangeConfig) -> None:
    auth_config(sessions={"allow_low_aal": timedelta(days=1)})
    issued = lifecycle.issue_access_token(user=Person(has_verified_factor=True), session=session(), amr=[], at=AT)
    assert issued.expires_in == 3600


# Reading


def test_an_issued_token_is_read_back_as_typed_claims() -> None:
    amr = [AmrEntry("password", AT), AmrEntry("totp", AT + timedelta(seconds=5))]
    issued = lifecycle.issue_access_token(user=Person(), session=session(), amr=amr, at=AT)
    claims = access_tokens.decode(issued.token, at=AT)
    assert (claims.sub, claims.aud, claims.role) == (str(USER_ID), ("authenticated",), "authenticated")
    assert (claims.session_id, claims.aal, claims.is_anonymous) == (str(SESSION_ID), "aal2", False)
    assert (claims.iat, claims.exp, claims.nbf) == (NOW, NOW + 3600, None)
    assert claims.amr == (AmrEntry("totp", AT + timedelta(seconds=5)), AmrEntry("password", AT))
    assert claims.raw["user_metadata"] == {"name": "Grüße"}


@pytest.mark.parametrize(
    ("claims", "attribute", "expected"),
    [
        ({}, "sub", ""),
        ({"sub": None}, "sub", ""),
        ({"sub": "x"}, "sub", "x"),
        ({"aud": ["a", "b"]}, "aud", ("a", "b")),
        ({"aud": "a"}, "aud", ("a",)),
        ({"aud": ""}, "aud", ("",)),
        ({"aud": None}, "aud", ()),
        ({"exp": None}, "exp", None),
        ({"exp": NOW + 0.5}, "exp", NOW + 0.5),
        ({"exp": str(NOW + 60)}, "exp", NOW + 60),
        ({"exp": 1e30}, "exp", 1e30),
        ({"session_id": str(SESSION_ID)}, "session_id", str(SESSION_ID)),
        ({"session_id": "x"}, "session_id", "x"),
        ({"session_id": ""}, "session_id", None),
        ({"session_id": str(UUID(int=0))}, "session_id", None),
        ({"role": None}, "role", ""),
        ({"is_anonymous": None}, "is_anonymous", False),
        ({"is_anonymous": True}, "is_anonymous", True),
        ({"amr": None}, "amr", ()),
        ({"iss": "elsewhere", "iat": NOW + 9000, "unknown": [1]}, "iat", NOW + 9000),
    ],
)
def test_claims_are_taken_as_they_are_meant(claims: dict[str, Any], attribute: str, expected: object) -> None:
    assert getattr(access_tokens.decode(hs256(claims), at=AT), attribute) == expected


def test_methods_may_be_names_or_objects() -> None:
    amr = ["password", {"method": "totp", "timestamp": 123, "provider": "webauthn"}]
    claims = access_tokens.decode(hs256({"amr": amr}), at=AT)
    assert claims.amr == (
        AmrEntry("password", AT),
        AmrEntry("totp", datetime.fromtimestamp(123, UTC), provider="webauthn"),
    )


@pytest.mark.parametrize(
    "claims",
    [
        {"role": ["admin"]},
        {"role": 7},
        {"sub": 7},
        {"sub": {}},
        {"aud": 7},
        {"aud": ["a", 7]},
        {"exp": "tomorrow"},
        {"exp": "Infinity"},
        {"exp": True},
        {"exp": []},
        {"nbf": "x"},
        {"iat": {}},
        {"email": 7},
        {"phone": 49},
        {"session_id": 7},
        {"is_anonymous": "true"},
        {"is_anonymous": 1},
        {"app_metadata": []},
        {"user_metadata": "x"},
        {"amr": "password"},
        {"amr": [7]},
        {"amr": [{"method": 7}]},
        {"amr": [{"method": "otp", "timestamp": 10**18}]},
        {"client_id": 7},
    ],
)
def test_a_claim_of_the_wrong_type_is_refused(claims: dict[str, Any]) -> None:
    assert refusal(hs256(claims)).startswith("token is malformed: could not JSON decode claim: ")


@pytest.mark.parametrize(
    ("claims", "at", "detail"),
    [
        ({"exp": NOW}, AT, "token has invalid claims: token is expired"),
        ({"exp": NOW - 1}, AT, "token has invalid claims: token is expired"),
        ({"exp": NOW + 1}, AT + timedelta(seconds=1), "token has invalid claims: token is expired"),
        ({"exp": 0}, AT, "token has invalid claims: token is expired"),
        ({"nbf": NOW + 1}, AT, "token has invalid claims: token is not valid yet"),
        ({"nbf": NOW, "exp": NOW}, AT, "token has invalid claims: token is expired"),
    ],
)
def test_a_token_out_of_its_time_is_refused_without_leeway(claims: dict[str, Any], at: datetime, detail: str) -> None:
    assert refusal(hs256(claims), at=at) == detail


@pytest.mark.parametrize("claims", [{"exp": NOW + 1}, {"nbf": NOW}, {}])
def test_a_token_in_its_time_is_accepted(claims: dict[str, Any]) -> None:
    access_tokens.decode(hs256(claims), at=AT)


@pytest.mark.parametrize("kid", [None, 7, []])
def test_a_token_of_the_secret_may_have_a_kid_that_is_not_a_text(kid: object) -> None:
    token = hs256({"role": "service_role"}, header={"alg": "HS256", "kid": kid})
    assert access_tokens.decode(token, at=AT).role == "service_role"


@pytest.mark.parametrize(
    ("token", "detail"),
    [
        ("", "token is malformed: token contains an invalid number of segments"),
        ("a.b", "token is malformed: token contains an invalid number of segments"),
        ("a.b.c.d", "token is malformed: token contains an invalid number of segments"),
        pytest.param("." * 9000, "token is malformed: token contains an invalid number of segments", id="only dots"),
        ("..", "token is malformed: could not JSON decode header: "),
        ("!.e30.", "token is malformed: could not base64 decode header: "),
        ("e30.!.", "token is malformed: could not base64 decode claim: "),
        ("eyJhbGciOiJIUzI1NiJ9.e30.!", "token is malformed: could not base64 decode signature: "),
        ("eyJhbGciOiJIUzI1NiJ9.e30=.AAAA", "token is malformed: could not base64 decode claim: "),
        (f"{segment(b'nope')}.e30.AAAA", "token is malformed: could not JSON decode header: "),
        (f"{segment([])}.e30.AAAA", "token is malformed: could not JSON decode header: not an object"),
        (f"e30.{segment([])}.AAAA", "token is malformed: could not JSON decode claim: not an object"),
        ("e30." + segment(b'{"a":NaN}') + ".AAAA", "token is malformed: could not JSON decode claim: "),
        ("ü.ü.ü", "token is malformed: could not base64 decode header: "),
        (hs256({}, header={"typ": "JWT"}), "token is unverifiable: signing method (alg) is unspecified"),
        (hs256({}, header={"alg": 5}), "token is unverifiable: signing method (alg) is unspecified"),
        (hs256({}, header={"alg": "hs256"}), "token is unverifiable: signing method (alg) is unavailable"),
        (hs256({}, header={"alg": "None"}), "token is unverifiable: signing method (alg) is unavailable"),
        (hs256({}, header={"alg": "none"}), "token signature is invalid: signing method none is invalid"),
        (f"{segment({'alg': 'none'})}.e30.", "token signature is invalid: signing method none is invalid"),
        (hs256({}, header={"alg": "HS512"}), "token signature is invalid: signing method HS512 is invalid"),
        (hs256({}, header={"alg": "RS256"}), "token signature is invalid: signing method RS256 is invalid"),
        (hs256({}, header={"alg": "HS256", "crit": ["exp"]}), "token is unverifiable: critical header parameters"),
        (hs256({}, secret=b"another secret"), "token signature is invalid: signature is invalid"),
        (hs256({})[:-3], "token signature is invalid: signature is invalid"),
        (
            hs256({})[:-1] + "b",
            "token signature is invalid: signature is invalid",
        ),  # sets unused bits of the last character
        (hs256({}).rpartition(".")[0] + ".", "token signature is invalid: signature is invalid"),
    ],
)
def test_a_forged_or_broken_token_is_refused_with_its_reason(token: str, detail: str) -> None:
    assert refusal(token).startswith(detail)


def test_none_stays_refused_even_when_an_operator_lists_it(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"valid_methods": ("HS256", "none")})
    assert refusal(f"{segment({'alg': 'none'})}.e30.") == "token signature is invalid: signing method none is invalid"


@pytest.mark.parametrize(
    ("kid", "detail"),
    [
        ("rsa", "token is unverifiable: error while executing keyfunc: unrecognized JWT kid rsa for algorithm HS256"),
        ("other", "token signature is invalid: signature is invalid"),
        (None, "token signature is invalid: signature is invalid"),
    ],
)
def test_a_public_key_is_never_the_secret_of_an_hmac(auth_config: ChangeConfig, kid: object, detail: str) -> None:
    jwk = generated("RS256", "rsa")
    auth_config(jwt={"keys": (jwk, generated("HS256", "old") | {"key_ops": ["verify"]})})
    pem = jwt.PyJWK(jwk).key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": "HS256"} if kid is None else {"alg": "HS256", "kid": kid}
    assert refusal(hs256({"sub": "x"}, header=header, secret=pem)) == detail


def test_hs256_is_refused_when_only_an_asymmetric_key_is_configured(rsa_key: dict[str, Any]) -> None:
    assert refusal(hs256({"sub": "x"})) == "token signature is invalid: signing method HS256 is invalid"


@pytest.mark.parametrize(("kid", "name"), [("other", "other"), (None, "<nil>"), (7, "<nil>"), ("", "")])
def test_a_key_nobody_knows_is_refused(rsa_key: dict[str, Any], kid: object, name: str) -> None:
    header = {"alg": "RS256"} if kid is None else {"alg": "RS256", "kid": kid}
    token = f"{segment(header)}.{segment({'sub': 'x'})}.{segment(bytes(256))}"
    assert refusal(token) == (
        f"token is unverifiable: error while executing keyfunc: unrecognized JWT kid {name} for algorithm RS256"
    )


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        ("HS256", "signature is invalid"),
        ("RS256", "crypto/rsa: verification error"),
        ("RS512", "crypto/rsa: verification error"),
        ("ES256", "crypto/ecdsa: verification error"),
        ("EdDSA", "ed25519: verification error"),
    ],
)
def test_a_bad_signature_is_named_by_its_kind(auth_config: ChangeConfig, algorithm: str, reason: str) -> None:
    auth_config(jwt={"keys": (generated(algorithm, "k"),)})
    header, _, signature = signing_keys.current().signing.encode({"sub": "x"}).split(".")
    assert refusal(f"{header}.{segment({'sub': 'y'})}.{signature}") == f"token signature is invalid: {reason}"


def test_old_shared_keys_still_verify_beside_an_asymmetric_one(auth_config: ChangeConfig) -> None:
    old = {"kty": "oct", "alg": "HS256", "kid": "old", "key_ops": ["verify"], "k": segment(SECRET.encode())}
    auth_config(jwt={"keys": (generated("ES256", "new"), old)})
    for header in ({"alg": "HS256", "kid": "old"}, {"alg": "HS256"}):
        assert access_tokens.decode(hs256({"sub": "x"}, header=header), at=AT).sub == "x"


# Memory of signatures already checked


def test_a_token_read_before_still_expires() -> None:
    token = hs256({"exp": NOW + 10})
    assert access_tokens.decode(token, at=AT) is access_tokens.decode(token, at=AT + timedelta(seconds=9))
    assert refusal(token, at=AT + timedelta(seconds=10)) == "token has invalid claims: token is expired"


def test_a_token_read_before_is_refused_once_its_key_is_gone(auth_config: ChangeConfig) -> None:
    token = hs256({"sub": "x"})
    access_tokens.decode(token, at=AT)
    auth_config(jwt={"secret": Secret("another secret of at least thirty-two characters")})
    assert refusal(token) == "token signature is invalid: signature is invalid"


def test_a_refused_token_is_refused_again() -> None:
    token = hs256({"sub": "x"}, secret=b"another secret")
    assert refusal(token) == refusal(token)


def test_more_tokens_than_are_remembered_are_all_read() -> None:
    tokens = [hs256({"sub": str(number)}) for number in range(4200)]
    for _ in range(2):
        assert [access_tokens.decode(token, at=AT).sub for token in tokens] == [str(n) for n in range(4200)]


def test_claims_cannot_be_changed_by_whoever_reads_them() -> None:
    claims: Any = access_tokens.decode(hs256({"sub": "x"}), at=AT)
    with pytest.raises(TypeError):
        claims.raw["sub"] = "y"
    with pytest.raises(AttributeError):
        claims.sub = "y"


def test_the_message_of_a_refusal_does_not_repeat_the_token() -> None:
    token = hs256({"sub": hashlib.sha256(b"x").hexdigest()}, secret=b"another secret")
    assert not any(part in refusal(token) for part in token.split("."))
