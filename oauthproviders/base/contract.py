"""The interface of a provider, and its errors. One object is created for each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from uuid import UUID

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf
from authsvc.outgoing import http


class InvalidProviderResponse(Exception):
    """A provider sent no usable response. The text gives the reason for the log, without content of the response."""


class ProviderUnreachable(InvalidProviderResponse):
    """A provider sent no complete response, for the reason `failure`."""

    def __init__(self, failure: http.Unreachable) -> None:
        super().__init__(str(failure))
        self.failure = failure


class ProviderUnavailable(Exception):
    """A provider that is unknown, disabled or not completely configured. Clients see the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """An authorization request (RFC 6749 §4.1.1), and the secret to store until the callback."""

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
    """The PKCE verifier (RFC 7636) or the secret of a request token (RFC 5849); `""` without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderToken:
    """A token response. Its representation contains no secret."""

    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    refresh_token: str = field(default="", repr=False)
    id_token: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    """The secret of an OAuth 1.0a token."""
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The complete response."""


class Provider(Protocol):
    """A provider with its settings. Methods may send requests, so none is called inside a transaction."""

    config: conf.Provider
    requires_pkce: bool
    """True if a callback requires the secret of the authorization request."""
    is_oauth1: ClassVar[bool]

    def authorization_request(self, *, state: UUID, scopes: str, extra: Mapping[str, str]) -> AuthorizationRequest:
        """Build the authorization request. `scopes` and `extra` are parameters of the client, as received.

        Raises InvalidProviderResponse, and ProviderUnavailable when the discovery document cannot be read.
        """

    def exchange(self, *, code: str, secret: str) -> ProviderToken:
        """Exchange the parameters of the callback for a token.

        Raises InvalidProviderResponse, ProviderUnavailable.
        """

    def profile(self, token: ProviderToken) -> ProviderProfile:
        """Fetch the profile of the user. Raises InvalidProviderResponse, ProviderUnavailable."""
