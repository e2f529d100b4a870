"""Access tokens: what a token says (`Claims`), `issue()` for a session, `read()` of one that is presented.

Reading asks no database: whether the user and the session behind a token still exist is the caller's question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import orjson

from authsvc import conf
from authsvc.security import crypto
from tokens.errors import BadJwt
from tokens.jwt import signing_keys
from tokens.sessions import aal as assurance
from tokens.sessions.aal import AmrEntry
from tokens.sessions.subjects import SessionFacts, Subject

_REMEMBERED_TOKENS = 4096
_NIL_UUID = str(UUID(int=0))

# RFC 7518 §3.1, RFC 8037 §3.1: what an `alg` can be at all.
_REGISTERED_ALGORITHMS = frozenset(
    [f"{family}{bits}" for family in ("HS", "RS", "ES", "PS") for bits in (256, 384, 512)] + ["EdDSA", "none"]
)
_BAD_SIGNATURE = {
    "HS": "signature is invalid",
    "RS": "crypto/rsa: verification error",
    "ES": "crypto/ecdsa: verification error",
    "Ed": "ed25519: verification error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says, of the right types; a text that is absent is empty."""

    sub: str
    aud: tuple[str, ...]
    role: str
    session_id: str | None
    """As text, not yet known to be a UUID; None also for the nil UUID."""
    exp: float | None
    """Unix seconds, like `nbf` and `iat`."""
    nbf: float | None
    iat: float | None
    aal: str
    amr: tuple[AmrEntry, ...]
    is_anonymous: bool
    raw: Mapping[str, Any] = field(repr=False)
    """All claims as they stand in the token. Shared between requests: not to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new access token; `expires_in` in seconds, `expires_at` in Unix seconds."""

    token: str = field(repr=False)
    expires_in: int
    expires_at: int


def issue(*, subject: Subject, session: SessionFacts, amr: Sequence[AmrEntry], at: datetime) -> Issued:
    """A token for this session of this user, issued at `at` and signed with the present signing key."""
    config = conf.current().jwt
    aal = assurance.aal(entry.method for entry in amr)
    issued_at = int(at.timestamp())
    expires_at = _expiry(issued_at=issued_at, aal=aal, subject=subject, session=session)
    claims: dict[str, Any] = {"iss": config.issuer} if config.issuer else {}
    claims |= {
        "sub": str(subject.id),
        "aud": subject.aud,
        "exp": expires_at,
        "iat": issued_at,
        "email": subject.email,
        "phone": subject.phone,
        "app_metadata": orjson.Fragment(subject.app_metadata_json),
        "user_metadata": orjson.Fragment(subject.user_metadata_json),
        "role": subject.role,
        "aal": aal,
    }
    if amr:
        claims["amr"] = assurance.claim(amr)
    claims["session_id"] = str(session.id)
    claims["is_anonymous"] = subject.is_anonymous
    if session.oauth_client_id is not None:
        claims["client_id"] = str(session.oauth_client_id)
        claims["scope"] = session.scopes or ""
    token = signing_keys.current().signing.sign(orjson.dumps(claims))
    return Issued(token=token, expires_in=expires_at - issued_at, expires_at=expires_at)


def read(token: str, *, at: datetime) -> Claims:
    """The claims of a presented token whose signature holds and whose time is `at`.

    A signature is checked once per process as long as the keys stay the same; `exp` and `nbf` are checked every time.
    Raises BadJwt.
    """
    keyset = signing_keys.current()
    remembered = _remembered_under(keyset)
    claims = remembered.get(token)
    if claims is not None:
        _check_time(claims, at=at)
        return claims
    claims = _verified(token, keyset=keyset, at=at)
    _check_time(claims, at=at)
    if len(remembered) >= _REMEMBERED_TOKENS:
        remembered.clear()
    remembered[token] = claims
    return claims


_remembered: tuple[signing_keys.KeySet, dict[str, Claims]] | None = None


def _remembered_under(keyset: signing_keys.KeySet) -> dict[str, Claims]:
    # One dictionary per key set. Its single operations are atomic, and a set that is replaced takes its tokens along:
    # a thread still busy under old keys can only write where nobody looks any more.
    global _remembered
    kept = _remembered
    if kept is None or kept[0] is not keyset:
        kept = _remembered = (keyset, {})
    return kept[1]


def _expiry(*, issued_at: int, aal: str, subject: Subject, session: SessionFacts) -> int:
    expires_at = issued_at + int(conf.current().jwt.exp.total_seconds())
    allow_low_aal = conf.current().sessions.allow_low_aal
    if allow_low_aal is None or aal >= assurance.highest_possible(subject):
        return expires_at
    return min(expires_at, int((session.created_at + allow_low_aal).timestamp()))


def _check_time(claims: Claims, *, at: datetime) -> None:
    now = at.timestamp()
    if claims.exp is not None and now >= claims.exp:
        raise BadJwt("token has invalid claims: token is expired")
    if claims.nbf is not None and now < claims.nbf:
        raise BadJwt("token has invalid claims: token is not valid yet")


def _verified(token: str, *, keyset: signing_keys.KeySet, at: datetime) -> Claims:
    segments = token.split(".", maxsplit=3)
    if len(segments) != 3:
        raise BadJwt("token is malformed: token contains an invalid number of segments")
    header = _object(segments[0], part="header")
    payload = _object(segments[1], part="claim")
    key = _key_for(header, keyset=keyset)
    signature = _decoded(segments[2], part="signature")
    if not key.verifies(f"{segments[0]}.{segments[1]}".encode(), signature):
        raise BadJwt(f"token signature is invalid: {_BAD_SIGNATURE[key.alg[:2]]}")
    return _typed(payload, at=at)


def _key_for(header: Mapping[str, Any], *, keyset: signing_keys.KeySet) -> signing_keys.Key:
    alg = header.get("alg")
    if not isinstance(alg, str):
        raise BadJwt("token is unverifiable: signing method (alg) is unspecified")
    if alg not in _REGISTERED_ALGORITHMS:
        raise BadJwt("token is unverifiable: signing method (alg) is unavailable")
    if alg == "none" or alg not in keyset.valid_methods:
        raise BadJwt(f"token signature is invalid: signing method {alg} is invalid")
    if "crit" in header:
        # RFC 7515 §4.1.11: an extension that must be understood, and we understand none.
        raise BadJwt("token is unverifiable: critical header parameters are not supported")
    named = header.get("kid")
    kid = named if isinstance(named, str) else None
    key = keyset.find(alg, kid)
    if key is None:
        name = "<nil>" if kid is None else kid
        raise BadJwt(
            f"token is unverifiable: error while executing keyfunc: unrecognized JWT kid {name} for algorithm {alg}"
        )
    return key


def _decoded(segment: str, *, part: str) -> bytes:
    try:
        return crypto.base64url_decode(segment)
    except ValueError as error:
        raise BadJwt(f"token is malformed: could not base64 decode {part}: {error}") from None


def _object(segment: str, *, part: str) -> dict[str, Any]:
    content = _decoded(segment, part=part)
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
    """The types of the claims we know. A number may also come as text, and null is the same as absent."""

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


def _typed(payload: dict[str, Any], *, at: datetime) -> Claims:
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
