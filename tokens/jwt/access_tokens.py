"""Claims of access tokens, and the verification of a presented token.

Verification does not query the database. Callers check that the user and the session still exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from types import MappingProxyType
from typing import Any
from uuid import UUID

import jwt
import msgspec
import orjson

from authsvc import conf
from authsvc.errors import ApiError
from authsvc.security import crypto
from tokens.jwt import signing_keys

MAX_TOKEN_LENGTH = 49_152
"""Longest token that is read, in characters, while metadata has its default limits."""
_MAX_OTHER_CLAIMS = 4_096

_MAX_CACHED_LENGTH = 8_192
"""Longer tokens are verified each time, so that a few of them cannot displace the others."""
# Claims as Python objects take up to twelve times the length of their token, and a few objects of their own.
_BYTES_PER_CHARACTER = 12
_BYTES_PER_ENTRY = 2_048
_NIL_UUID = str(UUID(int=0))

# RFC 7518 §3.1, RFC 8037 §3.1: the registered values of `alg`.
_REGISTERED_ALGORITHMS = frozenset(
    [f"{family}{bits}" for family in ("HS", "RS", "ES", "PS") for bits in (256, 384, 512)] + ["EdDSA", "none"]
)
_BAD_SIGNATURE = {
    "HS": "signature is invalid",
    "RS": "crypto/rsa: verification error",
    "ES": "crypto/ecdsa: verification error",
    "Ed": "ed25519: verification error",
}


class BadJwt(ApiError):
    """The token is malformed, its signature is invalid, or it is expired or not yet valid."""

    status = 403
    error_code = "bad_jwt"

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid JWT: unable to parse or verify signature, {detail}")


@dataclass(frozen=True, slots=True)
class AmrEntry:
    """An authentication method of a session (RFC 8176) and the time of its last use."""

    method: str
    at: datetime
    provider: str | None = None
    """The SSO provider's id, for `sso/saml`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of a token, converted to their types; an absent text is empty."""

    sub: str
    aud: tuple[str, ...]
    role: str
    session_id: str | None
    """Not validated as a UUID; None also for the nil UUID."""
    exp: float | None
    """Unix seconds, like `nbf` and `iat`."""
    nbf: float | None
    iat: float | None
    aal: str
    amr: tuple[AmrEntry, ...]
    is_anonymous: bool
    raw: Mapping[str, Any] = field(repr=False)
    """All claims as received. Shared between requests, therefore read-only."""


def issue_service_token(*, role: str, lifetime: timedelta, at: datetime) -> str:
    """A token with `role` for a program that calls the administration API, signed with the current signing key.

    It belongs to no user and no session: it is valid until it expires or its key is removed.
    """
    issuer = conf.current().jwt.issuer
    claims: dict[str, Any] = {"role": role}
    if issuer:
        claims["iss"] = issuer
    claims |= {"iat": int(at.timestamp()), "exp": int((at + lifetime).timestamp())}
    return signing_keys.current().signing.encode(claims)


def decode(token: str, *, at: datetime) -> Claims:
    """The claims of a token whose signature is valid and whose validity period contains `at`. Raises BadJwt.

    Verified tokens are cached per process as long as the keys stay the same; `exp` and `nbf` are checked every time.
    """
    if len(token) > MAX_TOKEN_LENGTH and len(token) > _max_length():
        raise BadJwt("token is malformed: token is too long")
    keyset = signing_keys.current()
    cache = _cache_of(keyset)
    digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
    claims = cache.claims.get(digest)
    if claims is not None:
        _check_time(claims, at=at)
        return claims
    claims = _verify(token, keyset=keyset, at=at)
    _check_time(claims, at=at)
    if len(token) <= _MAX_CACHED_LENGTH:
        cache.add(digest, claims, length=len(token))
    return claims


def _max_length() -> int:
    """The limit that follows from the limits of metadata: every token that the service issues is below it."""
    limits = conf.current().metadata
    return max(MAX_TOKEN_LENGTH, (limits.max_user_bytes + limits.max_app_bytes) * 4 // 3 + _MAX_OTHER_CLAIMS)


@dataclass(slots=True)
class ClaimsCache:
    """The claims of verified tokens by the SHA-256 of the token; it holds no token.

    Reading takes no lock, because single dictionary operations are atomic.
    """

    keyset: signing_keys.KeySet
    max_bytes: int = 32 * 1024 * 1024
    claims: dict[bytes, Claims] = field(default_factory=dict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, digest: bytes, claims: Claims, *, length: int) -> None:
        """Store the claims of a token of this length. A full cache is emptied first."""
        size = _BYTES_PER_ENTRY + length * _BYTES_PER_CHARACTER
        with self._lock:
            if self._bytes + size > self.max_bytes:
                self.claims.clear()
                self._bytes = 0
            if digest not in self.claims:
                self._bytes += size
            self.claims[digest] = claims


claims_cache: ClaimsCache | None = None


def _cache_of(keyset: signing_keys.KeySet) -> ClaimsCache:
    # One cache per key set, replaced together with it. A thread that still uses the old keys writes into the old
    # cache, which is no longer read.
    global claims_cache
    cache = claims_cache
    if cache is None or cache.keyset is not keyset:
        cache = claims_cache = ClaimsCache(keyset)
    return cache


def _check_time(claims: Claims, *, at: datetime) -> None:
    now = at.timestamp()
    if claims.exp is not None and now >= claims.exp:
        raise BadJwt("token has invalid claims: token is expired")
    if claims.nbf is not None and now < claims.nbf:
        raise BadJwt("token has invalid claims: token is not valid yet")


def _verify(token: str, *, keyset: signing_keys.KeySet, at: datetime) -> Claims:
    """The claims of a token with a valid signature, within its validity period. Raises BadJwt."""
    # PyJWT reads each part again, but accepts padding and has other error texts.
    segments = token.split(".", maxsplit=3)
    if len(segments) != 3:
        raise BadJwt("token is malformed: token contains an invalid number of segments")
    header = _json_object(segments[0], part="header")
    _json_object(segments[1], part="claim")
    key = _key_for(header, keyset=keyset)
    signature = _base64_decode(segments[2], part="signature")
    try:
        # PyJWT calls a signature with unused bits in its last character malformed; clients expect an invalid one.
        if crypto.base64url_encode(signature) != segments[2]:
            raise jwt.InvalidSignatureError
        payload = key.decode(token)
    except jwt.InvalidSignatureError:
        raise BadJwt(f"token signature is invalid: {_BAD_SIGNATURE[key.alg[:2]]}") from None
    except jwt.InvalidTokenError as error:
        raise BadJwt(f"token is malformed: {error}") from None
    return _convert_claims(payload, at=at)


def _key_for(header: Mapping[str, Any], *, keyset: signing_keys.KeySet) -> signing_keys.Key:
    """The key that a header names, for its algorithm only. Raises BadJwt."""
    alg = header.get("alg")
    if not isinstance(alg, str):
        raise BadJwt("token is unverifiable: signing method (alg) is unspecified")
    if alg not in _REGISTERED_ALGORITHMS:
        raise BadJwt("token is unverifiable: signing method (alg) is unavailable")
    if alg == "none" or alg not in keyset.valid_methods:
        raise BadJwt(f"token signature is invalid: signing method {alg} is invalid")
    if "crit" in header:
        # RFC 7515 §4.1.11: no extension is supported.
        raise BadJwt("token is unverifiable: critical header parameters are not supported")
    kid = header.get("kid")
    kid = kid if isinstance(kid, str) else None
    key = keyset.find(alg, kid)
    if key is None:
        name = "<nil>" if kid is None else kid
        raise BadJwt(
            f"token is unverifiable: error while executing keyfunc: unrecognized JWT kid {name} for algorithm {alg}"
        )
    return key


def _base64_decode(segment: str, *, part: str) -> bytes:
    try:
        return crypto.base64url_decode(segment)
    except ValueError as error:
        raise BadJwt(f"token is malformed: could not base64 decode {part}: {error}") from None


def _json_object(segment: str, *, part: str) -> dict[str, Any]:
    content = _base64_decode(segment, part=part)
    try:
        decoded = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadJwt(f"token is malformed: could not JSON decode {part}: {error}") from None
    if not isinstance(decoded, dict):
        raise BadJwt(f"token is malformed: could not JSON decode {part}: not an object")
    return decoded


class _Amr(msgspec.Struct):
    method: str = ""
    timestamp: int = 0
    provider: str | None = None


class _Payload(msgspec.Struct):
    """The types of the known claims. A number may also be a text; null is the same as absent."""

    iss: str | None = None
    sub: str | None = None
    aud: str | list[str] | None = None
    exp: float | str | None = None
    nbf: float | str | None = None
    iat: float | str | None = None
    jti: str | None = None
    email: str | None = None
    phone: str | None = None
    app_metadata: dict[str, Any] | None = None
    user_metadata: dict[str, Any] | None = None
    role: str | None = None
    aal: str | None = None
    amr: list[str | _Amr] | None = None
    session_id: str | None = None
    is_anonymous: bool | None = None
    client_id: str | None = None
    scope: str | None = None


def _convert_claims(payload: dict[str, Any], *, at: datetime) -> Claims:
    try:
        typed = msgspec.convert(payload, _Payload)
        return Claims(
            sub=typed.sub or "",
            aud=(typed.aud,) if isinstance(typed.aud, str) else tuple(typed.aud or ()),
            role=typed.role or "",
            session_id=typed.session_id if typed.session_id not in ("", _NIL_UUID) else None,
            exp=_number(typed.exp),
            nbf=_number(typed.nbf),
            iat=_number(typed.iat),
            aal=typed.aal or "",
            amr=tuple(_amr_entry(entry, at=at) for entry in typed.amr or ()),
            is_anonymous=typed.is_anonymous or False,
            raw=MappingProxyType(payload),
        )
    except (msgspec.MsgspecError, ValueError, OverflowError, OSError) as error:
        raise BadJwt(f"token is malformed: could not JSON decode claim: {error}") from None


def _number(value: float | str | None) -> float | None:
    return msgspec.json.decode(value, type=float) if isinstance(value, str) else value


def _amr_entry(entry: str | _Amr, *, at: datetime) -> AmrEntry:
    if isinstance(entry, str):
        return AmrEntry(method=entry, at=at)
    return AmrEntry(entry.method, datetime.fromtimestamp(entry.timestamp, UTC), entry.provider)
