"""Access tokens: the claims and lifetime of an issued token, and the verification of a received one."""

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

from authsvc.caller import Caller
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
WITHOUT_VALIDATION: jwt.types.Options = {"verify_aud": False, "verify_exp": False}
issue = functools.partial(lifecycle.issue_access_token, method="password", caller=Caller())
PREFIX = "invalid JWT: unable to parse or verify signature, "


@dataclass(frozen=True, kw_only=True)
class FakeUser:
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
    deleted_at: datetime | None = None
    has_verified_factor: bool = False


@functools.cache
def generate_key(algorithm: str, kid: str) -> dict[str, Any]:
    return signing_keys.generate(algorithm=algorithm) | {"kid": kid}


def make_record(*, created_at: datetime = AT, **fields: Any) -> SessionRecord:
    return SessionRecord(id=SESSION_ID, user_id=USER_ID, created_at=created_at, **fields)


def segment(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def encode_hs256(claims: Any, *, header: Any = None, secret: bytes = SECRET.encode()) -> str:
    """A token assembled without a library, so that header and claims may be invalid."""
    signed = f"{segment(header or {'alg': 'HS256'})}.{segment(claims)}"
    return f"{signed}.{segment(hmac.digest(secret, signed.encode(), 'sha256'))}"


def error_detail(token: str, *, at: datetime = AT) -> str:
    with pytest.raises(BadJwt) as raised:
        access_tokens.decode(token, at=at)
    assert (raised.value.status, raised.value.error_code) == (403, "bad_jwt")
    assert raised.value.message.startswith(PREFIX)
    return raised.value.message.removeprefix(PREFIX)


@pytest.fixture(autouse=True)
def only_secret_configured(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"secret": Secret(SECRET), "keys": (), "key_id": "", "issuer": "", "exp": timedelta(hours=1)})


@pytest.fixture
def rsa_key(auth_config: ChangeConfig) -> dict[str, Any]:
    jwk = generate_key("RS256", "rsa")
    auth_config(jwt={"keys": (jwk,)})
    return jwk


# Issued tokens


def test_issued_token_has_claims_in_documented_order(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"issuer": "https://auth.example.com"})
    issued = issue(
        user=FakeUser(), session=make_record(), amr=[AmrEntry("password", AT)], at=AT + timedelta(milliseconds=900)
    )
    claims = jwt.decode(issued.token, SECRET, algorithms=["HS256"], options=WITHOUT_VALIDATION)
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


def test_issued_token_omits_optional_claims_without_value() -> None:
    user = FakeUser(aud="", role="", email="", app_metadata_json="{}", user_metadata_json="{}", is_anonymous=True)
    issued = issue(user=user, session=make_record(), amr=[], at=AT)
    claims = access_tokens.decode(issued.token, at=AT).raw
    assert not {"iss", "amr", "client_id", "scope", "nbf", "jti"} & claims.keys()
    assert (claims["aud"], claims["role"], claims["email"], claims["app_metadata"]) == ("", "", "", {})
    assert claims["is_anonymous"] is True


def test_token_of_oauth_client_session_has_client_id_and_scope() -> None:
    oauth_session = make_record(oauth_client_id=CLIENT_ID, scopes="openid email")
    issued = issue(user=FakeUser(), session=oauth_session, amr=[], at=AT)
    claims = access_tokens.decode(issued.token, at=AT).raw
    assert (claims["client_id"], claims["scope"]) == (str(CLIENT_ID), "openid email")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_token_is_signed_with_configured_key(auth_config: ChangeConfig, algorithm: str) -> None:
    auth_config(jwt={"keys": (generate_key(algorithm, "k1"),)})
    issued = issue(user=FakeUser(), session=make_record(), amr=[], at=AT)
    assert jwt.get_unverified_header(issued.token) == {"alg": algorithm, "kid": "k1", "typ": "JWT"}
    public = jwt.PyJWK(signing_keys.current().jwks()["keys"][0])
    assert jwt.decode(issued.token, public, algorithms=[algorithm], options=WITHOUT_VALIDATION)["sub"] == str(USER_ID)
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
def test_token_of_low_aal_session_expires_with_the_session_limit(
    auth_config: ChangeConfig, methods: list[str], has_factor: bool, age: timedelta, lifetime: int
) -> None:
    auth_config(sessions={"allow_low_aal": timedelta(minutes=5)})
    issued = issue(
        user=FakeUser(has_verified_factor=has_factor),
        session=make_record(created_at=AT - age),
        amr=[AmrEntry(method, AT) for method in methods],
        at=AT,
    )
    assert (issued.expires_in, issued.expires_at) == (lifetime, NOW + lifetime)


def test_low_aal_limit_does_not_extend_token_lifetime(auth_config: ChangeConfig) -> None:
    auth_config(sessions={"allow_low_aal": timedelta(days=1)})
    issued = issue(user=FakeUser(has_verified_factor=True), session=make_record(), amr=[], at=AT)
    assert issued.expires_in == 3600


# Received tokens


def test_issued_token_decodes_to_typed_claims() -> None:
    amr = [AmrEntry("password", AT), AmrEntry("totp", AT + timedelta(seconds=5))]
    issued = issue(user=FakeUser(), session=make_record(), amr=amr, at=AT)
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
def test_claim_is_converted_to_its_type(claims: dict[str, Any], attribute: str, expected: object) -> None:
    assert getattr(access_tokens.decode(encode_hs256(claims), at=AT), attribute) == expected


def test_amr_accepts_names_and_objects() -> None:
    amr = ["password", {"method": "totp", "timestamp": 123, "provider": "webauthn"}]
    claims = access_tokens.decode(encode_hs256({"amr": amr}), at=AT)
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
def test_claim_of_wrong_type_is_rejected(claims: dict[str, Any]) -> None:
    assert error_detail(encode_hs256(claims)).startswith("token is malformed: could not JSON decode claim: ")


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
def test_token_outside_validity_period_is_rejected_without_leeway(
    claims: dict[str, Any], at: datetime, detail: str
) -> None:
    assert error_detail(encode_hs256(claims), at=at) == detail


@pytest.mark.parametrize("claims", [{"exp": NOW + 1}, {"nbf": NOW}, {}])
def test_token_inside_validity_period_is_accepted(claims: dict[str, Any]) -> None:
    assert access_tokens.decode(encode_hs256(claims), at=AT).raw == claims


@pytest.mark.parametrize("kid", [None, 7, []])
def test_hs256_token_with_non_string_kid_is_accepted(kid: object) -> None:
    token = encode_hs256({"role": "service_role"}, header={"alg": "HS256", "kid": kid})
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
        (encode_hs256({}, header={"typ": "JWT"}), "token is unverifiable: signing method (alg) is unspecified"),
        (encode_hs256({}, header={"alg": 5}), "token is unverifiable: signing method (alg) is unspecified"),
        (encode_hs256({}, header={"alg": "hs256"}), "token is unverifiable: signing method (alg) is unavailable"),
        (encode_hs256({}, header={"alg": "None"}), "token is unverifiable: signing method (alg) is unavailable"),
        (encode_hs256({}, header={"alg": "none"}), "token signature is invalid: signing method none is invalid"),
        (f"{segment({'alg': 'none'})}.e30.", "token signature is invalid: signing method none is invalid"),
        (encode_hs256({}, header={"alg": "HS512"}), "token signature is invalid: signing method HS512 is invalid"),
        (encode_hs256({}, header={"alg": "RS256"}), "token signature is invalid: signing method RS256 is invalid"),
        (
            encode_hs256({}, header={"alg": "HS256", "crit": ["exp"]}),
            "token is unverifiable: critical header parameters",
        ),
        (encode_hs256({}, secret=b"another secret"), "token signature is invalid: signature is invalid"),
        (encode_hs256({})[:-3], "token signature is invalid: signature is invalid"),
        (
            encode_hs256({})[:-1] + "b",
            "token signature is invalid: signature is invalid",
        ),  # sets unused bits of the last character
        (encode_hs256({}).rpartition(".")[0] + ".", "token signature is invalid: signature is invalid"),
    ],
)
def test_invalid_token_is_rejected_with_reason(token: str, detail: str) -> None:
    assert error_detail(token).startswith(detail)


def test_alg_none_is_rejected_even_if_configured_as_valid_method(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"valid_methods": ("HS256", "none")})
    assert (
        error_detail(f"{segment({'alg': 'none'})}.e30.") == "token signature is invalid: signing method none is invalid"
    )


@pytest.mark.parametrize(
    ("kid", "detail"),
    [
        ("rsa", "token is unverifiable: error while executing keyfunc: unrecognized JWT kid rsa for algorithm HS256"),
        ("other", "token signature is invalid: signature is invalid"),
        (None, "token signature is invalid: signature is invalid"),
    ],
)
def test_public_key_is_never_used_as_hmac_secret(auth_config: ChangeConfig, kid: object, detail: str) -> None:
    jwk = generate_key("RS256", "rsa")
    auth_config(jwt={"keys": (jwk, generate_key("HS256", "old") | {"key_ops": ["verify"]})})
    pem = jwt.PyJWK(jwk).key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": "HS256"} if kid is None else {"alg": "HS256", "kid": kid}
    assert error_detail(encode_hs256({"sub": "x"}, header=header, secret=pem)) == detail


def test_hs256_is_rejected_with_only_an_asymmetric_key(rsa_key: dict[str, Any]) -> None:
    assert error_detail(encode_hs256({"sub": "x"})) == "token signature is invalid: signing method HS256 is invalid"


@pytest.mark.parametrize(("kid", "name"), [("other", "other"), (None, "<nil>"), (7, "<nil>"), ("", "")])
def test_unknown_kid_is_rejected(rsa_key: dict[str, Any], kid: object, name: str) -> None:
    header = {"alg": "RS256"} if kid is None else {"alg": "RS256", "kid": kid}
    token = f"{segment(header)}.{segment({'sub': 'x'})}.{segment(bytes(256))}"
    assert error_detail(token) == (
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
def test_invalid_signature_message_depends_on_algorithm(auth_config: ChangeConfig, algorithm: str, reason: str) -> None:
    auth_config(jwt={"keys": (generate_key(algorithm, "k"),)})
    header, _, signature = signing_keys.current().signing.encode({"sub": "x"}).split(".")
    assert error_detail(f"{header}.{segment({'sub': 'y'})}.{signature}") == f"token signature is invalid: {reason}"


def test_shared_key_verifies_beside_asymmetric_signing_key(auth_config: ChangeConfig) -> None:
    shared = {"kty": "oct", "alg": "HS256", "kid": "old", "key_ops": ["verify"], "k": segment(SECRET.encode())}
    auth_config(jwt={"keys": (generate_key("ES256", "new"), shared)})
    for header in ({"alg": "HS256", "kid": "old"}, {"alg": "HS256"}):
        assert access_tokens.decode(encode_hs256({"sub": "x"}, header=header), at=AT).sub == "x"


# Cache of verified tokens


def test_cached_token_expires() -> None:
    token = encode_hs256({"exp": NOW + 10})
    assert access_tokens.decode(token, at=AT) is access_tokens.decode(token, at=AT + timedelta(seconds=9))
    assert error_detail(token, at=AT + timedelta(seconds=10)) == "token has invalid claims: token is expired"


def test_cached_token_is_rejected_after_its_key_is_removed(auth_config: ChangeConfig) -> None:
    token = encode_hs256({"sub": "x"})
    access_tokens.decode(token, at=AT)
    auth_config(jwt={"secret": Secret("another secret of at least thirty-two characters")})
    assert error_detail(token) == "token signature is invalid: signature is invalid"


def test_invalid_token_is_rejected_twice() -> None:
    token = encode_hs256({"sub": "x"}, secret=b"another secret")
    assert error_detail(token) == error_detail(token)


def test_more_tokens_than_cache_entries_are_decoded() -> None:
    tokens = [encode_hs256({"sub": str(number)}) for number in range(4200)]
    for _ in range(2):
        assert [access_tokens.decode(token, at=AT).sub for token in tokens] == [str(n) for n in range(4200)]


def test_claims_are_read_only() -> None:
    claims: Any = access_tokens.decode(encode_hs256({"sub": "x"}), at=AT)
    with pytest.raises(TypeError):
        claims.raw["sub"] = "y"
    with pytest.raises(AttributeError):
        claims.sub = "y"


def test_error_message_does_not_contain_the_token() -> None:
    token = encode_hs256({"sub": hashlib.sha256(b"x").hexdigest()}, secret=b"another secret")
    assert not any(part in error_detail(token) for part in token.split("."))
