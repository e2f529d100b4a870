"""The keys tokens are signed and checked with, parsed once, and what the world is told about them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.core.exceptions import ImproperlyConfigured
from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError

from authsvc import conf
from authsvc.conf import Jwt
from authsvc.security import crypto

HS256 = "HS256"

# RFC 7518 §6, RFC 8037 §2: which key an algorithm takes. The first algorithm of a family is the one of a key that
# does not name its own.
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
_PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

_DISCOVERED_CLAIMS = (
    "sub", "aud", "iss", "exp", "iat", "auth_time", "nonce", "email", "email_verified",
    "phone_number", "phone_number_verified", "name", "picture", "preferred_username", "updated_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Key:
    """One key, bound to one algorithm: nothing signed with another algorithm is ever checked against it."""

    alg: str
    kid: str
    """`""` when it has none."""
    public_jwk: dict[str, Any] | None
    """As published (RFC 7517); None for a shared secret."""
    _implementation: Algorithm = field(repr=False)
    _verifying: Any = field(repr=False)
    _signing: Any = field(repr=False)
    """None for a key that only verifies."""
    _header: bytes = field(repr=False)

    def sign(self, payload: bytes) -> str:
        """The token around `payload` in compact form (RFC 7515 §7.1)."""
        signed = self._header + b"." + crypto.base64url_encode(payload).encode()
        return f"{signed.decode()}.{crypto.base64url_encode(self._implementation.sign(signed, self._signing))}"

    @property
    def is_signing(self) -> bool:
        return self._signing is not None

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        return self._implementation.verify(signed, self._verifying, signature)


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """All keys of one configuration."""

    signing: Key
    valid_methods: frozenset[str]
    """Algorithms a presented token may name."""
    _by_kid: Mapping[str, Key] = field(repr=False)
    _secret: Key = field(repr=False)

    def find(self, alg: str, kid: str | None) -> Key | None:
        """The key to check a token's signature with: the one it names, else JWT_SECRET for HS256.

        None when there is none, or when the key named is not one for `alg`: a public key must never serve as the
        secret of an HMAC (RFC 8725 §2.1).
        """
        key = self._by_kid.get(kid or "")
        if key is not None and key.alg == alg:
            return key
        if key is not None and kid:
            return None
        return self._secret if alg == HS256 else None

    def jwks(self) -> dict[str, list[dict[str, Any]]]:
        """The JSON Web Key Set for everybody: public parts of the asymmetric keys."""
        return {"keys": [key.public_jwk for key in self._by_kid.values() if key.public_jwk is not None]}


_kept: tuple[tuple[Jwt, KeySet], ...] = ()
"""Of the present configuration, and of the one before, which requests under way may still use."""


def current() -> KeySet:
    """The keys of the present configuration. Raises ImproperlyConfigured when JWT_KEYS cannot be used."""
    global _kept
    config = conf.current().jwt
    for known, keyset in _kept:
        if known is config:
            return keyset
    keyset = _read(config)
    _kept = ((config, keyset), *_kept[:1])
    return keyset


def discovery() -> dict[str, object]:
    """The provider metadata (OpenID Connect Discovery 1.0 §3, RFC 8414 §2)."""
    issuer = conf.current().jwt.issuer
    base = issuer.rstrip("/")
    signing = current().signing
    scopes = ["openid", "profile", "email", "phone", "offline_access"]
    if signing.alg == HS256:
        # Nobody but us could check an ID token signed with the secret, so none is promised.
        scopes.remove("openid")
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": f"{base}/oauth/token",
        "userinfo_endpoint": f"{base}/oauth/userinfo",
        "jwks_uri": f"{base}/.well-known/jwks.json",
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [signing.alg],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
        "code_challenge_methods_supported": ["S256", "plain"],
        "claims_supported": list(_DISCOVERED_CLAIMS),
    }


def generate(*, algorithm: str) -> dict[str, Any]:
    """A new signing key as a JSON Web Key, ready for JWT_KEYS; `algorithm` is one of ALGORITHMS."""
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


def _read(config: Jwt) -> KeySet:
    secret_bytes = config.secret.reveal().encode()
    secret = _key(alg=HS256, kid=config.key_id, public_jwk=None, verifying=secret_bytes, signing=secret_bytes)
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
    alg = jwk.get("alg") or next((name for name, takes in _FAMILIES.items() if takes == family), None)
    if not isinstance(kid, str) or not isinstance(alg, str) or _FAMILIES.get(alg) != family or "aws:kms:arn" in jwk:
        raise ImproperlyConfigured(f"JWT_KEYS: the key {kid!r} is of a kind that is not supported")
    if is_signing and not _PRIVATE_MEMBERS & jwk.keys():
        raise ImproperlyConfigured(f"JWT_KEYS: the key {kid!r} is to sign and has no private part")
    try:
        material = _IMPLEMENTATIONS[alg].from_jwk(dict(jwk))
        if material == b"":
            raise ValueError("with an empty secret everybody could sign")
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        # The cause is left out: it may quote the key.
        raise ImproperlyConfigured(f"JWT_KEYS: the key {kid!r} is not a valid JSON Web Key") from None
    if kty == "oct":
        return _key(alg=alg, kid=kid, public_jwk=None, verifying=material, signing=material if is_signing else None)
    return _key(
        alg=alg,
        kid=kid,
        public_jwk=_published(jwk, alg=alg),
        verifying=material.public_key() if "d" in jwk else material,
        signing=material if is_signing else None,
    )


def _key(*, alg: str, kid: str, public_jwk: dict[str, Any] | None, verifying: Any, signing: Any) -> Key:
    header = {"alg": alg, "kid": kid, "typ": "JWT"} if kid else {"alg": alg, "typ": "JWT"}
    return Key(
        alg=alg,
        kid=kid,
        public_jwk=public_jwk,
        _implementation=_IMPLEMENTATIONS[alg],
        _verifying=verifying,
        _signing=signing,
        _header=crypto.base64url_encode(orjson.dumps(header)).encode(),
    )


def _published(jwk: Mapping[str, Any], *, alg: str) -> dict[str, Any]:
    public = {name: value for name, value in jwk.items() if name not in _PRIVATE_MEMBERS}
    return dict(sorted((public | {"alg": alg, "use": "sig", "key_ops": ["verify"]}).items()))
