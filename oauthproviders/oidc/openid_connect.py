"""OpenID Connect: discovery documents, key sets (RFC 7517), and ID token verification."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import jwt
import msgspec
import orjson
from django.utils import timezone

from authsvc import conf
from authsvc.outgoing import http, remote_documents
from authsvc.security import crypto
from oauthproviders.base import deadline, profiles
from oauthproviders.base.contract import InvalidProviderResponse, ProviderUnavailable, ProviderUnreachable
from tokens.jwt import published_keys
from tokens.jwt.published_keys import PublishedKeys

T = TypeVar("T", bound=msgspec.Struct)
Key = TypeVar("Key", bound=Hashable)
Document = TypeVar("Document")

_MAX_DOCUMENT_BYTES = 1_048_576
_NOT_BEFORE_LEEWAY = 300  # seconds

# Values of the claim `typ` in tokens of Keycloak that are no ID tokens.
_OTHER_TYPES = frozenset({"Bearer", "Refresh", "Offline", "Logout"})

# One issuer with two names: documents and tokens of one may contain the other.
_SAME_ISSUER = frozenset({"https://appleid.apple.com", "https://account.apple.com"})
_ALTERNATIVE_NAMES = {"https://accounts.google.com": "accounts.google.com"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An issuer and the location of its discovery document."""

    name: str
    url: str = ""
    """The URL of the discovery document, if it is not the standard one."""
    public_only: bool = False
    """True if only public addresses are called."""
    version: str = ""
    """The version of its settings; documents that were fetched for another version are not used."""

    @property
    def discovery_url(self) -> str:
        return self.url or f"{self.name.removesuffix('/')}/.well-known/openid-configuration"


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """A discovery document (OpenID Connect Discovery 1.0 §3); `""` for absent keys."""

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
    """The claims that are verified here, with their types."""

    iss: str
    exp: float
    sub: str | None = None
    aud: str | tuple[str, ...] = ()
    nbf: float | None = None
    iat: float | None = None
    nonce: str | None = None
    at_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeySetLocation:
    url: str
    public_only: bool
    version: str


def discover(issuer: str | Issuer) -> Discovery:
    """The cached discovery document of an issuer. Raises ProviderUnavailable."""
    location = _issuer(issuer)
    try:
        return _discoveries.get(location)
    except InvalidProviderResponse as error:
        raise ProviderUnavailable(f'OIDC discovery from "{location.discovery_url}" failed: {error}') from None


def authorization_endpoint(issuer: str, *, known: str) -> str:
    """The address at which users of this issuer sign in; `known` while its discovery document is unavailable."""
    try:
        return discover(issuer).authorization_endpoint
    except ProviderUnavailable:
        return known


def fetch(issuer: Issuer) -> Discovery:
    """Fetch the current discovery document, which may lack `issuer`. Raises InvalidProviderResponse."""
    document = _document(issuer.discovery_url, Discovery, public_only=issuer.public_only)
    if document.issuer and not is_same_issuer(document.issuer, issuer.name):
        raise InvalidProviderResponse("the document is about another issuer")
    schemes = {"https"} if issuer.discovery_url.startswith("https:") else {"http", "https"}
    for address in (
        *(document.authorization_endpoint, document.token_endpoint),
        *(document.userinfo_endpoint, document.jwks_uri),
    ):
        if address and not _has_scheme(address, schemes):
            raise InvalidProviderResponse("an address in the document is not an https one")
    return document


def _fetch_named(issuer: Issuer) -> Discovery:
    document = fetch(issuer)
    if not document.issuer:
        raise InvalidProviderResponse("the document is about no issuer")
    return document


def is_same_issuer(name: str, other: str) -> bool:
    """True if both are names of one issuer."""
    return name == other or {name, other} <= _SAME_ISSUER


def claimed_issuer(id_token: str) -> str:
    """The unverified issuer claim of a token. Raises InvalidProviderResponse without one."""
    try:
        token_claims = orjson.loads(crypto.base64url_decode(id_token.split(".")[1]))
        issuer = token_claims["iss"]
    except (ValueError, IndexError, KeyError, TypeError):
        raise InvalidProviderResponse("the ID token cannot be read") from None
    if not isinstance(issuer, str) or not issuer:
        raise InvalidProviderResponse("the ID token names no issuer")
    return issuer


def verify(
    id_token: str, *, issuer: str | Issuer, audiences: Collection[str] | None, access_token: str = ""
) -> dict[str, Any]:
    """Verify an ID token of this issuer for one of `audiences` (OpenID Connect Core §3.1.3.7); return its claims.

    `audiences` is None for callers that check the audience themselves. `at_hash` must match `access_token` if both are
    present. Raises InvalidProviderResponse, and ProviderUnavailable without a discovery document.
    """
    location = _issuer(issuer)
    discovery = discover(location)
    header = _header(id_token)
    algorithm = str(header.get("alg"))
    supported = discovery.id_token_signing_alg_values_supported or ("RS256",)
    if algorithm not in published_keys.ALGORITHMS.intersection(supported):
        raise InvalidProviderResponse("the ID token is signed by an algorithm that its issuer does not use")
    payload = _verified_payload(id_token, header, discovery, location)
    token_claims, typed = _parse_claims(payload)
    # The issuer signs access tokens (RFC 9068 §5) and logout tokens with the same keys. They are known to others.
    if str(header.get("typ")).lower().endswith("+jwt") or str(token_claims.get("typ")) in _OTHER_TYPES:
        raise InvalidProviderResponse("the token is no ID token")
    if typed.iss not in (location.name, _ALTERNATIVE_NAMES.get(location.name)):
        raise InvalidProviderResponse("the ID token is of another issuer")
    now = timezone.now().timestamp()
    if not typed.exp >= now:
        raise InvalidProviderResponse("the ID token has expired")
    if typed.nbf is not None and typed.nbf > now + _NOT_BEFORE_LEEWAY:
        raise InvalidProviderResponse("the ID token is not valid yet")
    token_audiences = {typed.aud} if isinstance(typed.aud, str) else set(typed.aud)
    if audiences is not None and token_audiences.isdisjoint(audiences):
        raise InvalidProviderResponse("the ID token is meant for another audience")
    if typed.at_hash is not None and access_token and typed.at_hash != _at_hash(access_token, algorithm):
        raise InvalidProviderResponse("the ID token belongs to another access token")
    return token_claims


def clear_caches() -> None:
    """Clear the caches of discovery documents and key sets."""
    _discoveries.clear()
    _key_sets.clear()


def _issuer(issuer: str | Issuer) -> Issuer:
    return Issuer(name=issuer) if isinstance(issuer, str) else issuer


def _has_scheme(address: str, schemes: Collection[str]) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in schemes and bool(parts.hostname)
    except ValueError:
        return False


def _document(url: str, schema: type[T], *, public_only: bool) -> T:
    try:
        response = http.send(
            "GET",
            url,
            timeout=deadline.remaining(),
            max_bytes=_MAX_DOCUMENT_BYTES,
            headers={"Accept": "application/json"},
            public_only=public_only,
        )
        if not 200 <= response.status <= 299:
            raise InvalidProviderResponse(f"status {response.status}")
        profiles.check_storable(response.json())
        return msgspec.json.decode(response.body, type=schema)
    except http.Unreachable as error:
        raise ProviderUnreachable(error) from None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise InvalidProviderResponse("the document is not of the form that was expected") from None


def _header(id_token: str) -> dict[str, Any]:
    try:
        return jwt.get_unverified_header(id_token)
    except (jwt.PyJWTError, UnicodeError):
        raise InvalidProviderResponse("the ID token is no signed token") from None


def _verified_payload(id_token: str, header: Mapping[str, Any], discovery: Discovery, location: Issuer) -> bytes:
    if not discovery.jwks_uri:
        raise InvalidProviderResponse("the issuer publishes no keys")
    keys_at = _KeySetLocation(url=discovery.jwks_uri, public_only=location.public_only, version=location.version)
    key_set = _key_sets.get(keys_at)
    payload = published_keys.verify_signature(id_token, header, key_set)
    if payload is None:
        # The issuer may have added a key, or replaced a key under the same id.
        newer = _key_sets.renew(keys_at, than=key_set)
        payload = published_keys.verify_signature(id_token, header, newer) if newer is not key_set else None
    if payload is None:
        raise InvalidProviderResponse("no key of the issuer has signed the ID token")
    return payload


def _parse_claims(payload: bytes) -> tuple[dict[str, Any], _Claims]:
    try:
        token_claims = orjson.loads(payload)
        profiles.check_storable(token_claims)
        return token_claims, msgspec.convert(token_claims, type=_Claims)
    except (ValueError, msgspec.ValidationError, RecursionError):
        # The text of the converter's error may contain personal data.
        raise InvalidProviderResponse("the claims of the ID token are not of the form that was expected") from None


def _at_hash(access_token: str, algorithm: str) -> str:
    name = "sha512" if algorithm == "EdDSA" else f"sha{algorithm[-3:]}"
    digest = hashlib.new(name, access_token.encode()).digest()
    return crypto.base64url_encode(digest[: len(digest) // 2])


class ProviderDocumentCache(remote_documents.DocumentCache[Key, Document]):
    """Documents of providers, as old as the settings permit."""

    def __init__(self, load: Callable[[Key], Document], *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(
            load,
            error=InvalidProviderResponse,
            max_age=lambda: conf.current().federation.discovery_max_age,
            remaining=deadline.remaining,
            clock=clock,
        )


_discoveries: ProviderDocumentCache[Issuer, Discovery] = ProviderDocumentCache(_fetch_named)
_key_sets: ProviderDocumentCache[_KeySetLocation, PublishedKeys] = ProviderDocumentCache(
    lambda location: _document(location.url, PublishedKeys, public_only=location.public_only)
)

# A lock that another thread holds during a fork would never be released in the child.
os.register_at_fork(after_in_child=clear_caches)
