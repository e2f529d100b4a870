"""OpenID Connect: what an issuer says of itself, its keys, and whether an ID token is from it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import jwt
import msgspec
import orjson

from authsvc import clock
from authsvc.outgoing import http
from authsvc.security import crypto
from oauthproviders.base import claims, deadline
from oauthproviders.errors import Unsupported, Unusable
from oauthproviders.oidc import key_sets
from oauthproviders.oidc.key_sets import KeySet
from oauthproviders.oidc.remote_documents import Documents

Shape = TypeVar("Shape", bound=msgspec.Struct)

_LONGEST_DOCUMENT = 1_048_576
_NOT_BEFORE_LEEWAY = 300  # seconds

# One issuer under two names, each of which has documents and tokens that bear the other.
_SAME_ISSUER = frozenset({"https://appleid.apple.com", "https://account.apple.com"})
_SECOND_SPELLINGS = {"https://accounts.google.com": "accounts.google.com"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An issuer, and how it is reached."""

    name: str
    url: str = ""
    """Of its discovery document, where that is not in the usual place."""
    public_only: bool = False
    """Whether it is reached at public addresses alone."""
    version: str = ""
    """Of the settings it comes from; what was fetched for another version is not used."""

    @property
    def discovery_url(self) -> str:
        return self.url or f"{self.name.removesuffix('/')}/.well-known/openid-configuration"


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """An issuer's description of itself (OpenID Connect Discovery 1.0 §3); `""` for what it does not say."""

    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    userinfo_endpoint: str = ""
    jwks_uri: str = ""
    id_token_signing_alg_values_supported: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    response_types_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    subject_types_supported: tuple[str, ...] | None = None


class _Claims(msgspec.Struct, frozen=True):
    """The claims that are looked at here, of the types they must have."""

    iss: str
    exp: float
    sub: str | None = None
    aud: str | tuple[str, ...] = ()
    nbf: float | None = None
    iat: float | None = None
    nonce: str | None = None
    at_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeysAt:
    url: str
    public_only: bool
    version: str


def discover(issuer: str | Issuer) -> Discovery:
    """What an issuer says of itself. Raises Unsupported when that cannot be had."""
    place = _issuer(issuer)
    try:
        return _discoveries.get(place)
    except Unusable as error:
        raise Unsupported(f'OIDC discovery from "{place.discovery_url}" failed: {error}') from None


def fetch(issuer: Issuer) -> Discovery:
    """The same as it is at this moment, be it without a name. Raises Unusable."""
    document = _document(issuer.discovery_url, Discovery, public_only=issuer.public_only)
    if document.issuer not in ("", issuer.name) and not {document.issuer, issuer.name} <= _SAME_ISSUER:
        raise Unusable("the document is about another issuer")
    schemes = {"https"} if issuer.discovery_url.startswith("https:") else {"http", "https"}
    for address in (
        *(document.authorization_endpoint, document.token_endpoint),
        *(document.userinfo_endpoint, document.jwks_uri),
    ):
        if address and not _is_reached_by(address, schemes):
            raise Unusable("an address in the document is not an https one")
    return document


def _fetch_named(issuer: Issuer) -> Discovery:
    found = fetch(issuer)
    if not found.issuer:
        raise Unusable("the document is about no issuer")
    return found


def claimed_issuer(id_token: str) -> str:
    """The issuer that a token names, which nothing vouches for yet. Raises Unusable when it names none."""
    try:
        said = orjson.loads(crypto.base64url_decode(id_token.split(".")[1]))
        issuer = said["iss"]
    except (ValueError, IndexError, KeyError, TypeError):
        raise Unusable("the ID token cannot be read") from None
    if not isinstance(issuer, str) or not issuer:
        raise Unusable("the ID token names no issuer")
    return issuer


def verify(
    id_token: str, *, issuer: str | Issuer, audiences: Collection[str] | None, access_token: str = ""
) -> dict[str, Any]:
    """The claims of an ID token from this issuer (OpenID Connect Core §3.1.3.7) that is meant for one of `audiences`.

    `audiences` is None for a caller who looks at that itself. The token's hash of an access token must be that of
    `access_token`, where both are there. Raises Unusable, and Unsupported when the issuer cannot be asked.
    """
    place = _issuer(issuer)
    discovery = discover(place)
    header = _header(id_token)
    algorithm = str(header.get("alg"))
    used = discovery.id_token_signing_alg_values_supported or ("RS256",)
    if algorithm not in key_sets.ALGORITHMS.intersection(used):
        raise Unusable("the ID token is signed by an algorithm that its issuer does not use")
    payload = _signed_payload(id_token, header, discovery, place)
    said, known = _read(payload)
    if known.iss not in (place.name, _SECOND_SPELLINGS.get(place.name)):
        raise Unusable("the ID token is of another issuer")
    now = clock.now().timestamp()
    if not known.exp >= now:
        raise Unusable("the ID token has expired")
    if known.nbf is not None and known.nbf > now + _NOT_BEFORE_LEEWAY:
        raise Unusable("the ID token is not valid yet")
    meant_for = {known.aud} if isinstance(known.aud, str) else set(known.aud)
    if audiences is not None and meant_for.isdisjoint(audiences):
        raise Unusable("the ID token is meant for another audience")
    if known.at_hash is not None and access_token and known.at_hash != _at_hash(access_token, algorithm):
        raise Unusable("the ID token belongs to another access token")
    return said


def forget() -> None:
    """Drop every document that is kept."""
    _discoveries.forget()
    _key_sets.forget()


def _issuer(issuer: str | Issuer) -> Issuer:
    return Issuer(name=issuer) if isinstance(issuer, str) else issuer


def _is_reached_by(address: str, schemes: Collection[str]) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in schemes and bool(parts.hostname)
    except ValueError:
        return False


def _document(url: str, shape: type[Shape], *, public_only: bool) -> Shape:
    try:
        reply = http.send(
            "GET",
            url,
            timeout=deadline.left(),
            max_bytes=_LONGEST_DOCUMENT,
            headers={"Accept": "application/json"},
            public_only=public_only,
        )
        if not 200 <= reply.status <= 299:
            raise Unusable(f"status {reply.status}")
        claims.checked(reply.json())
        return msgspec.json.decode(reply.body, type=shape)
    except http.Unreachable as error:
        raise Unusable(str(error)) from None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise Unusable("the document is not of the form that was expected") from None


def _header(id_token: str) -> dict[str, Any]:
    try:
        return jwt.get_unverified_header(id_token)
    except (jwt.PyJWTError, UnicodeError):
        raise Unusable("the ID token is no signed token") from None


def _signed_payload(id_token: str, header: Mapping[str, Any], discovery: Discovery, place: Issuer) -> bytes:
    if not discovery.jwks_uri:
        raise Unusable("the issuer publishes no keys")
    kept_at = _KeysAt(url=discovery.jwks_uri, public_only=place.public_only, version=place.version)
    key_set = _key_sets.get(kept_at)
    payload = key_sets.signed_payload(id_token, header, key_set)
    if payload is None:
        # A key that came into use since; or one that took the name of another.
        newer = _key_sets.renew(kept_at, than=key_set)
        payload = key_sets.signed_payload(id_token, header, newer) if newer is not key_set else None
    if payload is None:
        raise Unusable("no key of the issuer has signed the ID token")
    return payload


def _read(payload: bytes) -> tuple[dict[str, Any], _Claims]:
    try:
        said = orjson.loads(payload)
        claims.checked(said)
        return said, msgspec.convert(said, type=_Claims)
    except (ValueError, msgspec.ValidationError, RecursionError):
        # The converter's words may quote what somebody is called.
        raise Unusable("the claims of the ID token are not of the form that was expected") from None


def _at_hash(access_token: str, algorithm: str) -> str:
    name = "sha512" if algorithm == "EdDSA" else f"sha{algorithm[-3:]}"
    digest = hashlib.new(name, access_token.encode()).digest()
    return crypto.base64url_encode(digest[: len(digest) // 2])


_discoveries: Documents[Issuer, Discovery] = Documents(_fetch_named)
_key_sets: Documents[_KeysAt, KeySet] = Documents(
    lambda place: _document(place.url, KeySet, public_only=place.public_only)
)

# A lock that another thread held at the time of a fork would never be given back.
os.register_at_fork(after_in_child=forget)
