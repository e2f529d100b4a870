"""Parts of the pages that higher apps provide. They register them in `AppConfig.ready()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from django.http import HttpResponse
from django.utils.functional import Promise

from tokens.sessions.users import SignedInUser


class Section(Protocol):
    """An entry in the navigation of the account pages."""

    @property
    def route(self) -> str:
        """The name of the page's route, for `reverse`."""

    @property
    def title(self) -> str | Promise:
        """A translatable text."""

    @property
    def position(self) -> int:
        """The place among the entries, in ascending order."""

    def is_available(self, current: SignedInUser) -> bool:
        """False if the feature is disabled, or this user cannot have it."""


@dataclass(frozen=True, slots=True)
class ProviderButton:
    """A provider with which users can sign in."""

    name: str
    """The value of `provider` in the API."""
    label: str


class StartedFlow(Protocol):
    """A sign-in at a provider that has begun."""

    @property
    def url(self) -> str:
        """The page of the provider."""

    def set_cookies(self, response: HttpResponse) -> None:
        """Bind the flow to the browser, if the settings demand it."""


class SignInProviders(Protocol):
    """Sign-in with external providers."""

    def buttons(self) -> Sequence[ProviderButton]:
        """The enabled providers, in the order of the page."""

    def start(
        self, name: str, *, code_challenge: str, target: str, linking_to: SignedInUser | None, at: datetime
    ) -> StartedFlow:
        """Start a flow from which the browser returns to `target` with a code, or an error, in the query.

        The code is exchanged with the verifier of the S256 challenge. With `linking_to`, the flow links an identity to
        this user. Raises the errors of `/authorize`.
        """


sections: list[Section] = []
providers: SignInProviders | None = None
