"""Microsoft Entra tokens from azure-identity."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from catalogclient._single_flight import SingleFlight
from catalogclient.auth._base import TokenAuth, import_extra
from catalogclient.errors import CatalogError

_SCOPE = "https://storage.azure.com/.default"
_MARGIN = 60.0
"""Seconds before its expiry at which a token is replaced."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    expires_at: float
    """Seconds since 1970."""


class EntraAuth(TokenAuth):
    """Tokens from `DefaultAzureCredential` or another azure-identity `credential`. Requires the extra `entra`."""

    def __init__(self, *, scopes: Sequence[str] = (_SCOPE,), credential: Any = None) -> None:
        self._scopes = tuple(scopes)
        if credential is None:
            credential = import_extra("azure.identity", extra="entra").DefaultAzureCredential()
        self._credential = credential
        self._known: _Token | None = None
        self._flight: SingleFlight[_Token] = SingleFlight()

    def token(self) -> str:
        return self._flight.run(self._fetch, unless=self._fresh).text

    def renew(self, *, rejected: str | None) -> str:
        def newer() -> _Token | None:
            return self._known if self._known is not None and self._known.text != rejected else None

        return self._flight.run(self._fetch, unless=newer).text

    def _fresh(self) -> _Token | None:
        known = self._known
        return known if known is not None and time.time() < known.expires_at - _MARGIN else None

    def _fetch(self) -> _Token:
        try:
            found = self._credential.get_token(*self._scopes)
        except Exception as error:
            raise CatalogError(f"azure-identity returned no token: {type(error).__name__}") from error
        self._known = token = _Token(found.token, float(found.expires_on))
        return token
