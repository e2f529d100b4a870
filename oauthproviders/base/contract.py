"""What the journeys ask of a provider; one object is made for one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from uuid import UUID

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf


@dataclass(frozen=True, slots=True, kw_only=True)
class Outset:
    """A way to a provider: where the browser is sent, and what must be kept until it comes back."""

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
    """The PKCE verifier (RFC 7636), or the secret of a request token (RFC 5849); `""` when there is neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What a code was exchanged for. Nothing of it is shown."""

    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    refresh_token: str = field(default="", repr=False)
    id_token: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    """Of an OAuth 1.0a token."""
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole answer."""


class Provider(Protocol):
    """A provider with its settings. Every method may call it; none is called with a transaction open."""

    config: conf.Provider
    requires_pkce: bool
    """Whether its callback is refused without the secret of the outset."""
    is_oauth1: ClassVar[bool]

    def begin(self, *, flow_id: UUID, scopes: str, extra: Mapping[str, str]) -> Outset:
        """The way there. `scopes` and `extra` are the client's wishes, still as given.

        Raises Unusable, and Unsupported when its own description of itself cannot be read.
        """

    def exchange(self, *, code: str, secret: str) -> Token:
        """Trade what the browser brought back for a token. Raises Unusable, Unsupported."""

    def profile(self, token: Token) -> ProviderProfile:
        """Who signed in there. Raises Unusable, Unsupported."""
