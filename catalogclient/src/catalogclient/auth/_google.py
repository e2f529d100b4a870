"""Google tokens from google-auth."""

from __future__ import annotations

from collections.abc import Sequence

from catalogclient._single_flight import SingleFlight
from catalogclient.auth._base import TokenAuth, import_extra
from catalogclient.errors import CatalogError, InvalidArgumentError

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class GoogleAuth(TokenAuth):
    """Tokens from a credentials file or from the application default credentials. Requires the extra `google`."""

    def __init__(self, *, credentials_path: str | None = None, scopes: Sequence[str] = (_SCOPE,)) -> None:
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
