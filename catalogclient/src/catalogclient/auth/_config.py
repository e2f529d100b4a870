"""Mappings for the `auth` option, and the conversion of a mapping to an authentication manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Required, TypeAlias, TypedDict

from catalogclient.auth._base import AuthManager
from catalogclient.auth._cloud import EntraAuth, GoogleAuth
from catalogclient.auth._oauth2 import OAuth2ClientCredentials, OAuth2TokenExchange, TokenRequestOptions
from catalogclient.auth._sigv4 import Keys, SigV4Auth
from catalogclient.auth._static import BasicAuth, BearerAuth, CustomAuth, HeaderAuth, NoAuth
from catalogclient.errors import InvalidArgumentError


class NoAuthConfig(TypedDict):
    type: Literal["none"]


class BearerAuthConfig(TypedDict):
    type: Literal["bearer"]
    token: str | Callable[[], str]


class HeaderAuthConfig(TypedDict):
    type: Literal["header"]
    name: str
    value: str


class CustomAuthConfig(TypedDict, total=False):
    type: Required[Literal["custom"]]
    get_headers: Callable[[], Mapping[str, str]]
    getHeaders: Callable[[], Mapping[str, str]]


class BasicAuthConfig(TypedDict):
    type: Literal["basic"]
    username: str
    password: str


class OAuth2Config(TokenRequestOptions, total=False):
    type: Required[Literal["oauth2"]]
    client_id: str | None
    client_secret: Required[str]
    scope: str
    audience: str | None
    resource: str | None
    extra: Mapping[str, str]


class TokenExchangeConfig(TokenRequestOptions, total=False):
    type: Required[Literal["token-exchange"]]
    subject_token: Required[str]
    subject_token_type: str
    actor_token: str | None
    actor_token_type: str | None
    requested_token_type: str | None
    scope: str
    client_id: str | None
    client_secret: str | None


class SigV4Config(TypedDict, total=False):
    type: Required[Literal["sigv4"]]
    region: Required[str]
    service: str
    access_key: str | None
    secret_key: str | None
    session_token: str | None
    credentials: Callable[[], Keys]
    delegate: AuthManager


class GoogleConfig(TypedDict, total=False):
    type: Required[Literal["google"]]
    credentials_path: str | None
    scopes: list[str]


class EntraConfig(TypedDict, total=False):
    type: Required[Literal["entra"]]
    scopes: list[str]


AuthConfig: TypeAlias = (
    NoAuthConfig
    | BearerAuthConfig
    | HeaderAuthConfig
    | CustomAuthConfig
    | BasicAuthConfig
    | OAuth2Config
    | TokenExchangeConfig
    | SigV4Config
    | GoogleConfig
    | EntraConfig
)
"""`{"type": "bearer", "token": "..."}` and other types. The other keys are the parameters of the manager class."""


def _custom(
    get_headers: Callable[[], Mapping[str, str]] | None = None,
    getHeaders: Callable[[], Mapping[str, str]] | None = None,  # noqa: N803  (the spelling of the JavaScript client)
) -> AuthManager:
    source = get_headers or getHeaders
    if source is None:
        raise InvalidArgumentError("auth of type custom needs get_headers")
    return CustomAuth(source)


def _oauth2(client_secret: str, client_id: str | None = None, **more: Any) -> AuthManager:
    return OAuth2ClientCredentials(client_id, client_secret, **more)


_KINDS: dict[str, Callable[..., AuthManager]] = {
    "none": NoAuth,
    "bearer": BearerAuth,
    "header": HeaderAuth,
    "custom": _custom,
    "basic": BasicAuth,
    "oauth2": _oauth2,
    "token-exchange": OAuth2TokenExchange,
    "sigv4": SigV4Auth,
    "google": GoogleAuth,
    "entra": EntraAuth,
}


def create_manager(auth: AuthConfig | AuthManager | None) -> AuthManager:
    """Return `auth` or the manager that it configures. Raises InvalidArgumentError for an invalid mapping."""
    if auth is None:
        return NoAuth()
    if isinstance(auth, AuthManager):
        return auth
    if not isinstance(auth, Mapping):
        raise InvalidArgumentError("auth must be a mapping or an AuthManager")
    parameters: dict[str, Any] = {**auth}
    kind = _KINDS.get(str(parameters.pop("type", "")))
    if kind is None:
        raise InvalidArgumentError(f"auth has an unknown type; known types: {', '.join(_KINDS)}")
    try:
        return kind(**parameters)
    except TypeError as error:
        # The message of this TypeError contains names of parameters, not values.
        raise InvalidArgumentError(f"invalid keys for auth of this type: {error}") from None
