"""Public keys of clients that authenticate by `private_key_jwt`: registered as `jwks`, or fetched from `jwks_uri`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

import msgspec
import orjson

from authsvc import conf
from authsvc.outgoing import connections, http, urls
from authsvc.outgoing.remote_documents import DocumentCache
from oauthserver.errors import ClientMetadataInvalid
from oauthserver.models import OAuthClient
from tokens.jwt import published_keys
from tokens.jwt.published_keys import PublishedKeys
from tokens.jwt.signing_keys import PRIVATE_MEMBERS

_MAX_KEYS = 10
_MAX_STORED_BYTES = 16_384
_MAX_FETCHED_BYTES = 65_536
_MAX_URI_BYTES = 2048
_MAX_AGE = timedelta(minutes=10)
_TIMEOUT = timedelta(seconds=5)
_STORED_MEMBERS = frozenset({"kty", "n", "e", "crv", "x", "y", "kid", "alg", "use"})


class KeysUnavailable(Exception):
    """The key set of a client cannot be fetched. The text is the reason."""


def find(client: OAuthClient) -> PublishedKeys:
    """The keys of a client. Raises KeysUnavailable, ServiceBusy."""
    if client.jwks:
        return msgspec.json.decode(client.jwks, type=PublishedKeys)
    if client.jwks_uri:
        return key_sets.get(client.jwks_uri)
    raise KeysUnavailable("the client has no keys")


def find_newer(client: OAuthClient, keys: PublishedKeys) -> PublishedKeys | None:
    """The keys at the `jwks_uri` if they differ from `keys`, as the client may have replaced one. At most every 5 s."""
    if not client.jwks_uri:
        return None
    newer = key_sets.renew(client.jwks_uri, than=keys)
    return None if newer is keys else newer


def to_column(jwks: Mapping[str, Any]) -> str:
    """The stored text of a key set, without unknown members. Raises ClientMetadataInvalid."""
    keys = jwks.get("keys")
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise ClientMetadataInvalid("jwks must be a JSON Web Key Set")
    if not 1 <= len(keys) <= _MAX_KEYS:
        raise ClientMetadataInvalid(f"jwks must have 1 to {_MAX_KEYS} keys")
    if any(PRIVATE_MEMBERS & key.keys() for key in keys):
        raise ClientMetadataInvalid("jwks must not contain private or symmetric keys")
    if not any(published_keys.usable_algorithms(key, published_keys.ALGORITHMS) for key in keys):
        raise ClientMetadataInvalid("jwks must contain a public RSA, EC or Ed25519 key for signatures")
    stored = [{name: key[name] for name in sorted(_STORED_MEMBERS & key.keys())} for key in keys]
    try:
        text = orjson.dumps({"keys": stored})
    except orjson.JSONEncodeError:  # a number of more than 64 bits
        raise ClientMetadataInvalid("jwks must be a JSON Web Key Set") from None
    if len(text) > _MAX_STORED_BYTES:
        raise ClientMetadataInvalid(f"jwks cannot exceed {_MAX_STORED_BYTES} bytes")
    return text.decode()


def check_uri(uri: str) -> None:
    """Raises ClientMetadataInvalid. Each fetch checks the addresses of the host, because DNS can change."""
    if len(uri.encode(errors="replace")) > _MAX_URI_BYTES:
        raise ClientMetadataInvalid(f"jwks_uri cannot exceed {_MAX_URI_BYTES} characters")
    parts = urls.split_plain(uri)
    if parts is None or parts.scheme != "https" or parts.fragment or not _may_be_public(parts.hostname or ""):
        raise ClientMetadataInvalid("jwks_uri must be an https URL of a public host")


def _may_be_public(host: str) -> bool:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return False
    try:
        return connections.is_public(str(ip_address(name)))
    except ValueError:
        return True


def _fetch(uri: str) -> PublishedKeys:
    try:
        response = http.send(
            "GET",
            uri,
            timeout=_remaining(),
            max_bytes=_MAX_FETCHED_BYTES,
            headers={"Accept": "application/json"},
            public_only=True,
        )
        if response.status != 200:
            raise KeysUnavailable(f"status {response.status}")
        return msgspec.json.decode(response.body, type=PublishedKeys)
    except http.Unreachable as error:
        raise KeysUnavailable(str(error)) from None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise KeysUnavailable("the document is not a key set") from None


def _remaining() -> timedelta:
    return min(_TIMEOUT, conf.current().api.internal_http_timeout)


key_sets: DocumentCache[str, PublishedKeys] = DocumentCache(
    _fetch, error=KeysUnavailable, max_age=lambda: _MAX_AGE, remaining=_remaining
)

# A lock that another thread holds during a fork would never be released in the child.
os.register_at_fork(after_in_child=key_sets.clear)
