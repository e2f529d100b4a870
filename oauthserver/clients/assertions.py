"""Client authentication by signed JWTs: `private_key_jwt` (RFC 7523 §3, OpenID Connect Core §9)."""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import msgspec
import orjson

from authsvc.db.sql import fetch_row, namespaced
from authsvc.security import crypto
from oauthserver.clients import client_keys
from oauthserver.clients.client_keys import KeysUnavailable
from oauthserver.errors import InvalidClient
from oauthserver.models import OAuthClient
from tokens.jwt import published_keys, signing_keys

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_MAX_LENGTH = 8_192
_MAX_JTI_LENGTH = 256
_LIFETIME = timedelta(minutes=5)
"""Longest time after `iat`, or without it before `exp`, in which an assertion is accepted."""
_LEEWAY = timedelta(seconds=60)
"""Permitted difference of the clocks."""

logger = logging.getLogger(__name__)


class _Claims(msgspec.Struct, frozen=True):
    """The claims that are verified. Times are Unix seconds."""

    iss: str
    sub: str
    aud: str | tuple[str, ...]
    exp: float
    jti: str
    iat: float | None = None
    nbf: float | None = None


def _invalid(reason: str) -> InvalidClient:
    return InvalidClient(f"Invalid client assertion: {reason}")


def claimed_client_id(assertion: str) -> str:
    """The unverified subject of an assertion. Raises InvalidClient."""
    try:
        subject = orjson.loads(crypto.base64url_decode(assertion[:_MAX_LENGTH].split(".")[1]))["sub"]
    except (ValueError, IndexError, KeyError, TypeError):
        raise _invalid("it cannot be read") from None
    if not isinstance(subject, str) or not subject:
        raise _invalid("sub must be the client_id")
    return subject


def verify(assertion: str, *, client: OAuthClient, at: datetime) -> None:
    """Verify an assertion of a client, and use it up. One statement. Raises InvalidClient, ServiceBusy.

    An assertion is accepted once, at most `_LIFETIME` long. Must run outside a transaction, because its use remains
    recorded whatever the request leads to.
    """
    if len(assertion) > _MAX_LENGTH:
        raise _invalid("it is too long")
    claims = _read_claims(_verify_signature(assertion, client=client))
    if not claims.iss == claims.sub == str(client.id):
        raise _invalid("iss and sub must be the client_id")
    audiences = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
    # An assertion that another server would accept too could come from there.
    if not audiences or not audiences <= _own_audiences():
        raise _invalid("aud must be the issuer or the token endpoint")
    expires_at = _find_end(claims, at=at)
    if not 1 <= len(claims.jti) <= _MAX_JTI_LENGTH:
        raise _invalid(f"jti must have 1 to {_MAX_JTI_LENGTH} characters")
    if not _use_up(claims.jti, client=client, expires_at=expires_at):
        raise _invalid("it was used before")


def _verify_signature(assertion: str, *, client: OAuthClient) -> bytes:
    """The payload of an assertion that a key of the client has signed, by an asymmetric algorithm."""
    try:
        header: dict[str, Any] = jwt.get_unverified_header(assertion)
    except (jwt.PyJWTError, UnicodeError, ValueError):
        raise _invalid("it is no signed token") from None
    algorithm = header.get("alg")
    permitted = {client.token_endpoint_auth_signing_alg} if client.token_endpoint_auth_signing_alg else None
    if not isinstance(algorithm, str) or algorithm not in (permitted or published_keys.ALGORITHMS):
        raise _invalid("the client does not use its algorithm")
    try:
        keys = client_keys.find(client)
        payload = published_keys.verify_signature(assertion, header, keys)
        if payload is None and (newer := client_keys.find_newer(client, keys)) is not None:
            payload = published_keys.verify_signature(assertion, header, newer)
    except KeysUnavailable as error:
        logger.warning("cannot fetch the keys of a client", extra={"client_id": str(client.id), "reason": str(error)})
        raise _invalid("the keys of the client are not available") from None
    if payload is None:
        raise _invalid("no key of the client has signed it")
    return payload


def _read_claims(payload: bytes) -> _Claims:
    try:
        return msgspec.json.decode(payload, type=_Claims)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise _invalid("iss, sub, aud, exp and jti are required") from None


def _own_audiences() -> set[str]:
    """The values of `aud` that name this server (RFC 7523 §3, RFC 9126 §2)."""
    base = signing_keys.issuer_base()
    return {signing_keys.issuer(), f"{base}/oauth/token", f"{base}/oauth/par"}


def _find_end(claims: _Claims, *, at: datetime) -> datetime:
    """The time until which an assertion is accepted. Raises InvalidClient if it is over, or has not begun."""
    now, leeway, lifetime = at.timestamp(), _LEEWAY.total_seconds(), _LIFETIME.total_seconds()
    if max(claims.iat or 0, claims.nbf or 0) > now + leeway:
        raise _invalid("it is not valid yet")
    if claims.iat is None and claims.exp > now + lifetime:
        raise _invalid(f"exp must be at most {lifetime:.0f} seconds ahead")
    end = claims.exp if claims.iat is None else min(claims.exp, claims.iat + lifetime)
    if end <= now:
        raise _invalid("it has expired")
    return datetime.fromtimestamp(end, UTC)


def _use_up(jti: str, *, client: OAuthClient, expires_at: datetime) -> bool:
    """Record the use of an assertion; False if it was used before. One statement."""
    digest = hashlib.sha256(f"{client.id} {jti}".encode(errors="surrogatepass")).hexdigest()
    sql = f"""
        INSERT INTO {namespaced("oauth_client_assertions")} (digest, expires_at) VALUES (%s, %s)
        ON CONFLICT (digest) DO NOTHING RETURNING digest
    """  # noqa: S608  (own table name)
    return fetch_row(sql, (digest, expires_at)) is not None
