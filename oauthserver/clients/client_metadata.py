"""Client metadata in requests (RFC 7591 §2), and its validation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import urlsplit

from authsvc.api.parsing import Body
from oauthserver.clients import redirect_uris
from oauthserver.errors import ClientMetadataInvalid, RedirectUriInvalid
from oauthserver.models import AuthMethod, ClientType

AUTHORIZATION_CODE = "authorization_code"
REFRESH_TOKEN = "refresh_token"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
DEFAULT_GRANT_TYPES = (AUTHORIZATION_CODE, REFRESH_TOKEN)
GRANT_TYPES = (*DEFAULT_GRANT_TYPES, DEVICE_CODE)
AUTH_METHODS = (AuthMethod.NONE.value, AuthMethod.BASIC.value, AuthMethod.POST.value)
_MAX_REDIRECT_URIS = 10
_MAX_NAME_BYTES = 1024
_MAX_URI_BYTES = 2048


class ClientRegistration(Body, frozen=True):
    """The metadata of a new client. Other members are ignored."""

    needs: ClassVar[tuple[str, ...]] = ("redirect_uris",)
    example: ClassVar[tuple[str, ...]] = ("client_name", "redirect_uris")
    redirect_uris: list[str] | None = None
    """One to ten: `https`, a scheme of an app with a host, or `http` on a loopback host, where any port matches."""
    grant_types: list[str] | None = None
    """`authorization_code` and `refresh_token` by default; `urn:ietf:params:oauth:grant-type:device_code`."""
    client_name: str | None = None
    client_uri: str | None = None
    """The home page of the application."""
    logo_uri: str | None = None
    client_type: str | None = None
    """`public` or `confidential`, which is the default."""
    token_endpoint_auth_method: str | None = None
    """`none` for public clients, else `client_secret_basic` (the default) or `client_secret_post`."""


class ClientUpdate(Body, frozen=True):
    """Changes of a client; absent members and null keep their value, and an empty text removes it."""

    example: ClassVar[tuple[str, ...]] = ("client_name",)
    redirect_uris: list[str] | None = None
    grant_types: list[str] | None = None
    client_name: str | None = None
    client_uri: str | None = None
    logo_uri: str | None = None
    token_endpoint_auth_method: str | None = None
    """A method of the client's type, which cannot be changed."""

    def values(self) -> dict[str, Any]:
        """The present values by column."""
        present = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return {name: join(value) if isinstance(value, list) else value for name, value in present.items()}


def join(values: Iterable[str]) -> str:
    """The column of a list: each value once, separated by commas."""
    return ",".join(dict.fromkeys(values))


def check_registration(metadata: ClientRegistration) -> None:
    """Raises ClientMetadataInvalid for the first error."""
    if not metadata.redirect_uris:
        raise RedirectUriInvalid("redirect_uris is required")
    _check_values(metadata)
    if metadata.client_type and metadata.client_type not in ClientType.values:
        raise ClientMetadataInvalid("client_type must be 'public' or 'confidential'")
    method = metadata.token_endpoint_auth_method
    if method and method not in AUTH_METHODS:
        raise ClientMetadataInvalid(f"token_endpoint_auth_method must be one of: [{' '.join(AUTH_METHODS)}]")
    if metadata.client_type and method and metadata.client_type != type_of(method):
        raise ClientMetadataInvalid(
            f"client_type '{metadata.client_type}' is inconsistent with token_endpoint_auth_method '{method}'"
            f" (expected client_type '{type_of(method)}')"
        )


def check_update(changes: ClientUpdate, *, client_type: str) -> None:
    """Raises ClientMetadataInvalid for the first error."""
    if not changes.values():
        raise ClientMetadataInvalid("No fields provided for update")
    if changes.redirect_uris == []:
        raise RedirectUriInvalid("redirect_uris cannot be empty")
    if changes.grant_types == []:
        raise ClientMetadataInvalid("grant_types cannot be empty")
    _check_values(changes)
    method = changes.token_endpoint_auth_method
    if method is None:
        return
    if method not in AUTH_METHODS:
        raise ClientMetadataInvalid(f"invalid token_endpoint_auth_method: must be one of [{' '.join(AUTH_METHODS)}]")
    valid = [each for each in AUTH_METHODS if type_of(each) == client_type]
    if method not in valid:
        raise ClientMetadataInvalid(
            f"token_endpoint_auth_method '{method}' is not valid for client_type '{client_type}';"
            f" valid methods: [{' '.join(valid)}]"
        )


def type_of(auth_method: str) -> str:
    """The type of the clients that use an authentication method."""
    return ClientType.PUBLIC.value if auth_method == AuthMethod.NONE else ClientType.CONFIDENTIAL.value


def _check_values(metadata: ClientRegistration | ClientUpdate) -> None:
    uris = metadata.redirect_uris or []
    if len(uris) > _MAX_REDIRECT_URIS:
        raise RedirectUriInvalid(f"redirect_uris cannot exceed {_MAX_REDIRECT_URIS} items")
    for uri in uris:
        if reason := redirect_uris.find_refusal(uri):
            raise RedirectUriInvalid(f"invalid redirect_uri '{uri}': {reason}")
    if not set(metadata.grant_types or ()) <= set(GRANT_TYPES):
        names = ", ".join(f"'{name}'" for name in GRANT_TYPES[:-1])
        raise ClientMetadataInvalid(f"grant_types must only contain {names} and/or '{GRANT_TYPES[-1]}'")
    if _bytes(metadata.client_name) > _MAX_NAME_BYTES:
        raise ClientMetadataInvalid(f"client_name cannot exceed {_MAX_NAME_BYTES} characters")
    for name in ("client_uri", "logo_uri"):
        uri = getattr(metadata, name)
        if _bytes(uri) > _MAX_URI_BYTES:
            raise ClientMetadataInvalid(f"{name} cannot exceed {_MAX_URI_BYTES} characters")
        if uri and not _is_web_url(uri):
            raise ClientMetadataInvalid(f"{name} must be a valid URL")


def _bytes(text: str | None) -> int:
    return len((text or "").encode(errors="replace"))


def _is_web_url(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        return parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
