"""Client metadata in requests (RFC 7591 §2), and its validation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from authsvc import conf
from authsvc.api.parsing import Body
from oauthserver import resources, scopes
from oauthserver.clients import client_keys, redirect_uris
from oauthserver.errors import ClientMetadataInvalid, RedirectUriInvalid
from oauthserver.models import AuthMethod, ClientType, OAuthClient
from tokens.jwt import published_keys

AUTHORIZATION_CODE = "authorization_code"
REFRESH_TOKEN = "refresh_token"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
CLIENT_CREDENTIALS = "client_credentials"
DEFAULT_GRANT_TYPES = (AUTHORIZATION_CODE, REFRESH_TOKEN)
DYNAMIC_GRANT_TYPES = (*DEFAULT_GRANT_TYPES, DEVICE_CODE)
"""Those that a client can register for without an administrator."""
GRANT_TYPES = (*DYNAMIC_GRANT_TYPES, CLIENT_CREDENTIALS)
_WITHOUT_REDIRECTS = frozenset({CLIENT_CREDENTIALS, DEVICE_CODE})
"""Grants whose clients need no redirect URI."""
AUTH_METHODS = (AuthMethod.NONE.value, AuthMethod.BASIC.value, AuthMethod.POST.value)
_MAX_REDIRECT_URIS = 10
_MAX_NAME_BYTES = 1024
_MAX_URI_BYTES = 2048
_MAX_SCOPE_LENGTH = 2048
_SCOPE = re.compile(r"[!#-\[\]-~]+")
"""RFC 6749 §3.3."""


class ClientMetadata(Body, frozen=True):
    """Members that registration and update have in common."""

    jwks: dict[str, Any] | None = None
    """Public keys (RFC 7517 §5) of a client with `private_key_jwt`; either these or `jwks_uri`."""
    jwks_uri: str | None = None
    """URL of the keys: `https`, on a public host."""
    token_endpoint_auth_signing_alg: str | None = None
    """The only algorithm of its assertions, such as `ES256`."""
    require_pushed_authorization_requests: bool | None = None
    """True if the client sends authorization requests to `/oauth/par` only (RFC 9126 §6)."""
    post_logout_redirect_uris: list[str] | None = None
    """Redirect URIs of a logout (OpenID Connect RP-Initiated Logout 1.0 §3.1); at most ten."""
    backchannel_logout_uri: str | None = None
    """Receives a logout token when a session of the client ends (OpenID Connect Back-Channel Logout 1.0 §2.2)."""
    backchannel_logout_session_required: bool | None = None
    """True if the client needs `sid` in logout tokens, which always have it."""
    scope: str | None = None
    """Scopes of the client itself, for the grant `client_credentials`; only an administrator sets them."""
    resource: str | None = None
    """The URI of the client's API (RFC 8707), whose access tokens it can introspect; set by an administrator."""


class ClientRegistration(ClientMetadata, frozen=True):
    """The metadata of a new client. Other members are ignored."""

    example: ClassVar[tuple[str, ...]] = ("client_name", "redirect_uris")
    redirect_uris: list[str] | None = None
    """One to ten: `https`, a scheme of an app with a host, or `http` on a loopback host, where any port matches."""
    grant_types: list[str] | None = None
    """`authorization_code` and `refresh_token` by default; also `urn:ietf:params:oauth:grant-type:device_code` and,
    if an administrator registers it, `client_credentials`."""
    client_name: str | None = None
    client_uri: str | None = None
    """The home page of the application."""
    logo_uri: str | None = None
    client_type: str | None = None
    """`public` or `confidential`, which is the default."""
    token_endpoint_auth_method: str | None = None
    """`none` for public clients, else `client_secret_basic` (the default), `client_secret_post`, `private_key_jwt`."""


class ClientUpdate(ClientMetadata, frozen=True):
    """Changes of a client; absent members and null keep their value, and an empty text or object removes it."""

    example: ClassVar[tuple[str, ...]] = ("client_name",)
    redirect_uris: list[str] | None = None
    grant_types: list[str] | None = None
    client_name: str | None = None
    client_uri: str | None = None
    logo_uri: str | None = None
    token_endpoint_auth_method: str | None = None
    """A method of the client's type, which cannot be changed."""

    def values(self) -> dict[str, Any]:
        """The present values by column. Raises ClientMetadataInvalid for invalid keys."""
        present = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        values = {name: _to_column(value) for name, value in present.items()}
        # New keys replace the former ones, whichever of both members has them.
        for name, other in (("jwks", "jwks_uri"), ("jwks_uri", "jwks")):
            if values.get(name):
                values.setdefault(other, None)
        return values


def join(values: Iterable[str]) -> str:
    """The column of a list: each value once, separated by commas."""
    return ",".join(dict.fromkeys(values))


def check_registration(metadata: ClientRegistration, *, grant_types: Iterable[str]) -> None:
    """Raises ClientMetadataInvalid for the first error. `grant_types` are the permitted ones."""
    requested = metadata.grant_types or DEFAULT_GRANT_TYPES
    if _needs_redirects(requested) and not metadata.redirect_uris:
        raise RedirectUriInvalid("redirect_uris is required")
    _check_values(metadata, grant_types=grant_types)
    _check_own_scope(metadata.scope, grant_types=requested)
    if metadata.client_type and metadata.client_type not in ClientType.values:
        raise ClientMetadataInvalid("client_type must be 'public' or 'confidential'")
    method = metadata.token_endpoint_auth_method
    has_keys = bool(metadata.jwks or metadata.jwks_uri)
    if method and method not in _methods(has_keys=has_keys):
        _require_keys(method)
        raise ClientMetadataInvalid(
            f"token_endpoint_auth_method must be one of: [{' '.join(_methods(has_keys=has_keys))}]"
        )
    if metadata.client_type and method and metadata.client_type != type_of(method):
        raise ClientMetadataInvalid(
            f"client_type '{metadata.client_type}' is inconsistent with token_endpoint_auth_method '{method}'"
            f" (expected client_type '{type_of(method)}')"
        )
    is_public = ClientType.PUBLIC in (metadata.client_type, method and type_of(method))
    _check_own_grant(requested, is_public=is_public)


def check_update(changes: ClientUpdate, *, client: OAuthClient) -> None:
    """Raises ClientMetadataInvalid for the first error."""
    values = changes.values()
    if not values:
        raise ClientMetadataInvalid("No fields provided for update")
    grant_types = changes.grant_types or client.grant_type_list
    if changes.redirect_uris == [] and _needs_redirects(grant_types):
        raise RedirectUriInvalid("redirect_uris cannot be empty")
    if changes.grant_types == []:
        raise ClientMetadataInvalid("grant_types cannot be empty")
    if _needs_redirects(grant_types) and not (changes.redirect_uris or client.redirect_uris):
        raise RedirectUriInvalid("redirect_uris is required")
    _check_values(changes, grant_types=GRANT_TYPES)
    if changes.scope is not None or changes.grant_types:
        # The stored scope was not checked if the client had another grant.
        _check_own_scope(client.scope if changes.scope is None else changes.scope, grant_types=grant_types)
    _check_own_grant(grant_types, is_public=client.is_public)
    has_keys = bool(values.get("jwks", client.jwks) or values.get("jwks_uri", client.jwks_uri))
    method = changes.token_endpoint_auth_method
    if method is None:
        if client.token_endpoint_auth_method == AuthMethod.PRIVATE_KEY_JWT and not has_keys:
            _require_keys(client.token_endpoint_auth_method)
        return
    methods = _methods(has_keys=has_keys)
    if method not in methods:
        _require_keys(method)
        raise ClientMetadataInvalid(f"invalid token_endpoint_auth_method: must be one of [{' '.join(methods)}]")
    valid = [name for name in methods if type_of(name) == client.client_type]
    if method not in valid:
        raise ClientMetadataInvalid(
            f"token_endpoint_auth_method '{method}' is not valid for client_type '{client.client_type}';"
            f" valid methods: [{' '.join(valid)}]"
        )


def _needs_redirects(grant_types: Iterable[str]) -> bool:
    return AUTHORIZATION_CODE in grant_types or _WITHOUT_REDIRECTS.isdisjoint(grant_types)


def _methods(*, has_keys: bool) -> tuple[str, ...]:
    """The methods that a client can use."""
    return (*AUTH_METHODS, AuthMethod.PRIVATE_KEY_JWT.value) if has_keys else AUTH_METHODS


def _require_keys(method: str) -> None:
    if method == AuthMethod.PRIVATE_KEY_JWT:
        raise ClientMetadataInvalid("token_endpoint_auth_method 'private_key_jwt' requires jwks or jwks_uri")


def _check_own_grant(grant_types: Iterable[str], *, is_public: bool) -> None:
    if is_public and CLIENT_CREDENTIALS in grant_types:
        raise ClientMetadataInvalid("grant type 'client_credentials' requires client_type 'confidential'")


def type_of(auth_method: str) -> str:
    """The type of the clients that use an authentication method."""
    return ClientType.PUBLIC.value if auth_method == AuthMethod.NONE else ClientType.CONFIDENTIAL.value


def _to_column(value: Any) -> Any:
    if isinstance(value, list):
        return join(value)
    if isinstance(value, Mapping):
        return client_keys.to_column(value) if value else ""
    return value


def _check_values(metadata: ClientRegistration | ClientUpdate, *, grant_types: Iterable[str]) -> None:
    """The checks that registration and update share. Raises ClientMetadataInvalid, RedirectUriInvalid."""
    uris = metadata.redirect_uris or []
    if len(uris) > _MAX_REDIRECT_URIS:
        raise RedirectUriInvalid(f"redirect_uris cannot exceed {_MAX_REDIRECT_URIS} items")
    for uri in uris:
        if reason := redirect_uris.find_refusal(uri):
            raise RedirectUriInvalid(f"invalid redirect_uri '{uri}': {reason}")
    if not set(metadata.grant_types or ()) <= set(grant_types):
        # The text that client libraries and tests know. The guide lists the other grant types.
        raise ClientMetadataInvalid("grant_types must only contain 'authorization_code' and/or 'refresh_token'")
    if _bytes(metadata.client_name) > _MAX_NAME_BYTES:
        raise ClientMetadataInvalid(f"client_name cannot exceed {_MAX_NAME_BYTES} characters")
    for name in ("client_uri", "logo_uri"):
        uri = getattr(metadata, name)
        if _bytes(uri) > _MAX_URI_BYTES:
            raise ClientMetadataInvalid(f"{name} cannot exceed {_MAX_URI_BYTES} characters")
        if uri and not _is_web_url(uri):
            raise ClientMetadataInvalid(f"{name} must be a valid URL")
    logout_uris = metadata.post_logout_redirect_uris or []
    if len(logout_uris) > _MAX_REDIRECT_URIS:
        raise ClientMetadataInvalid(f"post_logout_redirect_uris cannot exceed {_MAX_REDIRECT_URIS} items")
    for uri in logout_uris:
        if reason := redirect_uris.find_refusal(uri):
            raise ClientMetadataInvalid(f"invalid post_logout_redirect_uri '{uri}': {reason}")
    logout_uri = metadata.backchannel_logout_uri
    if logout_uri and (reason := _find_logout_uri_refusal(logout_uri)):
        raise ClientMetadataInvalid(f"invalid backchannel_logout_uri: {reason}")
    _check_keys(metadata)
    resource = metadata.resource or ""
    if reason := "resource too long" if _bytes(resource) > resources.MAX_LENGTH else resources.find_refusal(resource):
        raise ClientMetadataInvalid(reason)


def _find_logout_uri_refusal(uri: str) -> str:
    """The reason why a client cannot receive logout tokens at a URL; empty if it can."""
    if reason := redirect_uris.find_refusal(uri):
        return reason
    return "" if _is_web_url(uri) else "must be an https URL"


def _check_keys(metadata: ClientMetadata) -> None:
    if metadata.jwks and metadata.jwks_uri:
        raise ClientMetadataInvalid("jwks and jwks_uri must not both be present")
    if metadata.jwks:
        client_keys.to_column(metadata.jwks)
    if metadata.jwks_uri:
        client_keys.check_uri(metadata.jwks_uri)
    algorithm = metadata.token_endpoint_auth_signing_alg
    if algorithm and algorithm not in published_keys.ALGORITHMS:
        names = " ".join(sorted(published_keys.ALGORITHMS))
        raise ClientMetadataInvalid(f"token_endpoint_auth_signing_alg must be one of: [{names}]")


def _check_own_scope(scope: str | None, *, grant_types: Iterable[str]) -> None:
    if not scope or CLIENT_CREDENTIALS not in grant_types:
        return  # ignored, as the scopes of users are not restricted by client
    if len(scope) > _MAX_SCOPE_LENGTH:
        raise ClientMetadataInvalid(f"scope cannot exceed {_MAX_SCOPE_LENGTH} characters")
    for name in scopes.parse(scope):
        if not _SCOPE.fullmatch(name):
            raise ClientMetadataInvalid(f"invalid scope '{name}'")
        if name in conf.OAUTH_SCOPES:
            raise ClientMetadataInvalid(f"scope '{name}' requires a user")


def _bytes(text: str | None) -> int:
    return len((text or "").encode(errors="replace"))


def _is_web_url(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        return parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
