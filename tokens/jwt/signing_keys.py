"""Keys that sign and verify tokens, parsed once per configuration, and their publication as JWKS and metadata."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.core.exceptions import ImproperlyConfigured
from jwt.algorithms import HMACAlgorithm, get_default_algorithms
from jwt.exceptions import DecodeError, PyJWTError

from authsvc import conf
from authsvc.conf import Jwt
from authsvc.security import crypto

HS256 = "HS256"

# RFC 7518 §6, RFC 8037 §2: algorithm → key type and curve. A key without `alg` uses the first algorithm of its type.
_FAMILIES: Mapping[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None),
    "RS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    HS256: ("oct", None),
}
ALGORITHMS = tuple(_FAMILIES)

_IMPLEMENTATIONS = {name: get_default_algorithms()[name] for name in ALGORITHMS}
PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Of a private or secret JSON Web Key (RFC 7518 §6)."""

_CLAIMS = (
    "sub", "aud", "exp", "iat", "email", "phone", "app_metadata", "user_metadata", "role", "aal", "amr", "session_id",
    "is_anonymous",
)  # fmt: skip


class _PreparedHmac(HMACAlgorithm):
    """HMAC with a key that was checked when the configuration was read, instead of at each token (50 µs)."""

    def prepare_key(self, key: str | bytes) -> bytes:
        return key.encode() if isinstance(key, str) else key

    def check_key_length(self, key: bytes) -> str | None:
        return None  # `check --deploy` and `doctor` warn about short secrets


class _Jws(jwt.PyJWS):
    """PyJWS that ignores a `kid` that is not a text, as `access_tokens` does: other issuers write null or a number."""

    def _validate_kid(self, kid: Any) -> None:
        pass


class _Codec(jwt.PyJWT):
    """PyJWT that reads and writes claims with orjson, and leaves the validation of claims to `access_tokens`."""

    def __init__(self) -> None:
        claims = ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
        super().__init__(options={f"verify_{claim}": False for claim in claims})  # type: ignore[arg-type]  # Options has literal keys
        self._jws = _Jws(options=self._get_sig_options())
        self._jws.unregister_algorithm(HS256)
        self._jws.register_algorithm(HS256, _PreparedHmac(HMACAlgorithm.SHA256))

    def _encode_payload(self, payload: dict[str, Any], *_: Any, **__: Any) -> bytes:
        return orjson.dumps(payload)

    def _decode_payload(self, decoded: dict[str, Any]) -> dict[str, Any]:
        payload = orjson.loads(decoded["payload"])
        if not isinstance(payload, dict):
            raise DecodeError("not an object")
        return payload


_codec = _Codec()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Key:
    """A key bound to one algorithm. It never verifies a signature of another algorithm."""

    alg: str
    kid: str
    """`""` for a key without one."""
    public_jwk: dict[str, Any] | None
    """The published form (RFC 7517); None for a shared secret."""
    _verifying: Any = field(repr=False)
    _signing: Any = field(repr=False)
    """None for a key that only verifies."""

    @property
    def is_signing(self) -> bool:
        return self._signing is not None

    def encode(self, claims: dict[str, Any], *, token_type: str = "JWT") -> str:
        """The claims as a signed token in compact form (RFC 7515 §7.1). Values may be `orjson.Fragment`s."""
        headers = {"typ": token_type, "kid": self.kid} if self.kid else {"typ": token_type}
        return _codec.encode(claims, self._signing, algorithm=self.alg, headers=headers)

    def decode(self, token: str) -> dict[str, Any]:
        """The claims of a token with a valid signature of this key.

        Raises jwt.InvalidSignatureError, or another jwt.InvalidTokenError for a malformed token.
        """
        return _codec.decode(token, self._verifying, algorithms=[self.alg])


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """All keys of one configuration."""

    signing: Key
    valid_methods: frozenset[str]
    """Algorithms that a presented token may use."""
    _by_kid: Mapping[str, Key] = field(repr=False)
    _secret: Key = field(repr=False)

    def find(self, alg: str, kid: str | None) -> Key | None:
        """The key that verifies a token: the key with this `kid`, else JWT_SECRET for HS256.

        None when there is no such key, or when the key with this `kid` is not for `alg`: a public key must never
        serve as the secret of an HMAC (RFC 8725 §2.1).
        """
        key = self._by_kid.get(kid or "")
        if key is not None and key.alg == alg:
            return key
        if key is not None and kid:
            return None
        return self._secret if alg == HS256 else None

    def jwks(self) -> dict[str, list[dict[str, Any]]]:
        """The published JSON Web Key Set: the public parts of the asymmetric keys."""
        return {"keys": [key.public_jwk for key in self._by_kid.values() if key.public_jwk is not None]}


def _no_metadata() -> dict[str, object]:
    return {}


authorization_server_metadata: Callable[[], dict[str, object]] = _no_metadata
"""Set by `AppConfig.ready()` of the app that is the OAuth server; empty while that is disabled."""

_keysets: tuple[tuple[Jwt, KeySet], ...] = ()
"""Of the current configuration and of the previous one, which running requests may still use."""


def current() -> KeySet:
    """The keys of the current configuration. Raises ImproperlyConfigured for unusable JWT_KEYS."""
    global _keysets
    config = conf.current().jwt
    for cached_config, keyset in _keysets:
        if cached_config is config:
            return keyset
    keyset = _read(config)
    _keysets = ((config, keyset), *_keysets[:1])
    return keyset


def discovery() -> dict[str, object]:
    """The metadata for verifiers of access tokens (OpenID Connect Discovery 1.0 §3, RFC 8414 §2).

    Its endpoints are those of the OAuth server, if that is enabled. Access tokens have an issuer only if JWT_ISSUER is
    set; the document always has one.
    """
    metadata = authorization_server_metadata()
    if metadata:
        return metadata
    return {
        "issuer": issuer(),
        "jwks_uri": f"{issuer_base()}/.well-known/jwks.json",
        "response_types_supported": [],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [current().signing.alg],
        "claims_supported": [*(["iss"] if conf.current().jwt.issuer else []), *_CLAIMS],
    }


def issuer() -> str:
    """The issuer of ID tokens and of the discovery documents."""
    return conf.current().jwt.issuer or conf.current().api.external_url


def issuer_base() -> str:
    """The URL, without a slash at its end, to which the paths of endpoints are appended in discovery documents."""
    identifier = issuer()
    is_url = identifier.startswith(("https://", "http://"))
    return (identifier if is_url else conf.current().api.external_url).rstrip("/")


def generate(*, algorithm: str) -> dict[str, Any]:
    """A new signing key as a JSON Web Key for JWT_KEYS; `algorithm` is one of ALGORITHMS."""
    material: Any
    match algorithm:
        case "RS256" | "RS512":
            material = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "ES256":
            material = ec.generate_private_key(ec.SECP256R1())
        case "ES512":
            material = ec.generate_private_key(ec.SECP521R1())
        case "EdDSA":
            material = ed25519.Ed25519PrivateKey.generate()
        case _:
            material = crypto.base64url_decode(crypto.generate_key())
    members = _IMPLEMENTATIONS[algorithm].to_jwk(material, as_dict=True)
    return members | {"kid": str(uuid.uuid4()), "alg": algorithm, "key_ops": ["sign", "verify"]}


def secret_key() -> dict[str, Any]:
    """JWT_SECRET as a JSON Web Key for JWT_KEYS, which signs and verifies as the secret does without JWT_KEYS."""
    config = conf.current().jwt
    members = _IMPLEMENTATIONS[HS256].to_jwk(config.secret.reveal().encode(), as_dict=True)
    return members | {"kid": config.key_id, "alg": HS256, "key_ops": ["sign", "verify"]}


def _read(config: Jwt) -> KeySet:
    secret_bytes = config.secret.reveal().encode()
    secret = Key(alg=HS256, kid=config.key_id, public_jwk=None, _verifying=secret_bytes, _signing=secret_bytes)
    by_kid: dict[str, Key] = {}
    for key in [_parse(jwk) for jwk in config.keys] or [secret]:
        by_kid[key.kid] = key
    signing = [key for key in by_kid.values() if key.is_signing]
    if not signing:
        raise ImproperlyConfigured("JWT_KEYS: no signing key detected")
    if len(signing) > 1:
        raise ImproperlyConfigured("JWT_KEYS: multiple signing keys detected, only 1 signing key is supported")
    valid_methods = frozenset(config.valid_methods) or frozenset(key.alg for key in by_kid.values())
    return KeySet(signing[0], valid_methods, by_kid, secret)


def _parse(jwk: Mapping[str, Any]) -> Key:
    kty, kid, is_signing = jwk.get("kty"), jwk.get("kid") or "", "sign" in (jwk.get("key_ops") or ())
    family = (kty, jwk.get("crv") if kty in ("EC", "OKP") else None)
    alg = jwk.get("alg") or next((name for name, required in _FAMILIES.items() if required == family), None)
    if not isinstance(kid, str) or not isinstance(alg, str) or _FAMILIES.get(alg) != family or "aws:kms:arn" in jwk:
        raise ImproperlyConfigured(f"JWT_KEYS: the type or algorithm of the key {kid!r} is not supported")
    if is_signing and not PRIVATE_MEMBERS & jwk.keys():
        raise ImproperlyConfigured(f"JWT_KEYS: the key {kid!r} is a signing key but has no private part")
    try:
        material = _IMPLEMENTATIONS[alg].from_jwk(dict(jwk))
        if material == b"":
            raise ValueError("an empty secret cannot protect a token")
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        # Without the cause, whose text may contain the key.
        raise ImproperlyConfigured(f"JWT_KEYS: the key {kid!r} is not a valid JSON Web Key") from None
    if kty == "oct":
        return Key(alg=alg, kid=kid, public_jwk=None, _verifying=material, _signing=material if is_signing else None)
    return Key(
        alg=alg,
        kid=kid,
        public_jwk=_build_public_jwk(jwk, alg=alg),
        _verifying=material.public_key() if "d" in jwk else material,
        _signing=material if is_signing else None,
    )


def _build_public_jwk(jwk: Mapping[str, Any], *, alg: str) -> dict[str, Any]:
    public = {name: value for name, value in jwk.items() if name not in PRIVATE_MEMBERS}
    return dict(sorted((public | {"alg": alg, "use": "sig", "key_ops": ["verify"]}).items()))
