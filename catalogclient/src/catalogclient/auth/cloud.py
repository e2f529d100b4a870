"""Tokens of Google's and Microsoft's own libraries, which are installed only when asked for."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from catalogclient.auth.base import TokenAuth
from catalogclient.errors import CatalogError, InvalidArgumentError

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_AZURE_SCOPE = "https://storage.azure.com/.default"
_MARGIN = 60.0
"""Seconds before its end at which a token is replaced."""


class GoogleAuth(TokenAuth):
    """Tokens of a service account's file, or of the environment's default. Needs the extra `google`."""

    def __init__(self, *, credentials_path: str | None = None, scopes: Sequence[str] = (_GOOGLE_SCOPE,)) -> None:
        super().__init__()
        auth, self._requests = _imported("google", "google.auth", "google.auth.transport.requests")
        self._lock = threading.Lock()
        try:
            if credentials_path is None:
                self._credentials = auth.default(scopes=list(scopes))[0]
            else:
                self._credentials = auth.load_credentials_from_file(credentials_path, scopes=list(scopes))[0]
        except Exception as error:
            raise InvalidArgumentError(f"no Google credentials: {type(error).__name__}") from error

    def token(self) -> str:
        return str(self._credentials.token) if self._credentials.valid else self.renew(refused=None)

    def renew(self, *, refused: str | None) -> str:
        # Google's credentials are one object without protection; who waited finds them renewed.
        with self._lock:
            if not self._credentials.valid or self._credentials.token == refused:
                try:
                    self._credentials.refresh(self._requests.Request())
                except Exception as error:
                    raise CatalogError(f"Google gave no token: {type(error).__name__}") from error
            return str(self._credentials.token)


class EntraAuth(TokenAuth):
    """Tokens of Microsoft Entra by `DefaultAzureCredential`, or by `credential`. Needs the extra `entra`."""

    def __init__(self, *, scopes: Sequence[str] = (_AZURE_SCOPE,), credential: Any = None) -> None:
        super().__init__()
        self._scopes = tuple(scopes)
        self._lock = threading.Lock()
        self._token = ""
        self._expires_at = 0.0
        if credential is None:
            (identity,) = _imported("entra", "azure.identity")
            credential = identity.DefaultAzureCredential()
        self._credential = credential

    def token(self) -> str:
        if time.time() < self._expires_at - _MARGIN:
            return self._token
        return self.renew(refused=self._token or None)

    def renew(self, *, refused: str | None) -> str:
        with self._lock:
            if not self._token or self._token == refused:
                try:
                    found = self._credential.get_token(*self._scopes)
                except Exception as error:
                    raise CatalogError(f"Entra gave no token: {type(error).__name__}") from error
                self._token, self._expires_at = found.token, float(found.expires_on)
            return self._token


def _imported(extra: str, *names: str) -> list[Any]:
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError:
        raise InvalidArgumentError(f"this kind of authentication needs catalogclient[{extra}]") from None
