"""Tokens from the libraries of cloud providers: google-auth, and azure-identity for Microsoft Entra."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from catalogclient._single_flight import SingleFlight
from catalogclient.auth._base import TokenAuth, import_extra
from catalogclient.errors import CatalogError, InvalidArgumentError

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_ENTRA_SCOPE = "https://storage.azure.com/.default"
_MARGIN = 60.0
"""Seconds before its expiry at which a token is replaced."""


class GoogleAuth(TokenAuth):
    """Tokens from a credentials file or from the application default credentials. Requires the extra `google`."""

    def __init__(self, *, credentials_path: str | None = None, scopes: Sequence[str] = (_GOOGLE_SCOPE,)) -> None:
        auth = import_extra("google.auth", extra="google")
        self._requests = import_extra("google.auth.transport.requests", extra="google")
        self._flight: SingleFlight[str] = SingleFlight()
        try:
            if credentials_path is None:
                self._credentials = auth.default(scopes=list(scopes))[0]
            else:
                self._credentials = auth.load_credentials_from_file(credentials_path, scopes=list(scopes))[0]
        except Exception as error:
            raise InvalidArgumentError(f"google-auth found no credentials: {type(error).__name__}") from error

    def token(self) -> str:
        return self._flight.run(self._fetch, unless=self._valid)

    def renew(self, *, rejected: str | None) -> str:
        def newer() -> str | None:
            token = self._valid()
            return token if token != rejected else None

        return self._flight.run(self._fetch, unless=newer)

    def _valid(self) -> str | None:
        return str(self._credentials.token) if self._credentials.valid else None

    def _fetch(self) -> str:
        try:
            self._credentials.refresh(self._requests.Request())
        except Exception as error:
            raise CatalogError(f"google-auth returned no token: {type(error).__name__}") from error
        return str(self._credentials.token)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    expires_at: float
    """Seconds since 1970."""


class EntraAuth(TokenAuth):
    """Tokens from `DefaultAzureCredential` or another azure-identity `credential`. Requires the extra `entra`."""

    def __init__(self, *, scopes: Sequence[str] = (_ENTRA_SCOPE,), credential: Any = None) -> None:
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
            access_token = self._credential.get_token(*self._scopes)
        except Exception as error:
            raise CatalogError(f"azure-identity returned no token: {type(error).__name__}") from error
        self._known = token = _Token(access_token.token, float(access_token.expires_on))
        return token
