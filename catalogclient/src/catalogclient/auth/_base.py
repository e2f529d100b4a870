"""What every kind of authentication is: something that puts credentials on a request, and may get new ones."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from catalogclient._messages import PreparedRequest
from catalogclient._options import RestCatalogOptions
from catalogclient.errors import InvalidArgumentError


class AuthManager(ABC):
    """Puts credentials on requests. One object serves any number of threads."""

    def attach(self, options: RestCatalogOptions) -> None:  # noqa: B027  (most have no use for it)
        """Called once by each catalog that will use this object, before its first request.

        `options` are those of the catalog without `auth` and `session`, for managers that send requests of their own.
        """

    @abstractmethod
    def apply(self, request: PreparedRequest) -> None:
        """Set header fields of `request`; called for every attempt, when all else of it is settled."""

    def refresh(self, *, reason: int) -> bool:
        """After an answer 401 or 419 (`reason`): whether there are new credentials, so that it is worth another try."""
        return False

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Let go of connections."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> str:
        raise TypeError(f"{type(self).__name__} holds credentials and is neither copied nor pickled")


class TokenAuth(AuthManager):
    """Credentials that are a bearer token, which may be replaced."""

    def __init__(self) -> None:
        self._applied = _Applied()

    @abstractmethod
    def token(self) -> str:
        """The token of now."""

    @abstractmethod
    def renew(self, *, refused: str | None) -> str:
        """A token other than `refused`, from wherever tokens come; `refused` again when there is none."""

    def apply(self, request: PreparedRequest) -> None:
        token = visible(self.token())
        self._applied.token = token
        request.headers["Authorization"] = f"Bearer {token}"

    def refresh(self, *, reason: int) -> bool:
        refused = self._applied.token
        return self.renew(refused=refused) != refused


class _Applied(threading.local):
    """The token that the call in this thread went out with."""

    token: str | None = None


def visible(token: object) -> str:
    """`token`. Raises InvalidArgumentError when it is empty or not made of visible ASCII."""
    if not isinstance(token, str) or not token or not all("!" <= each <= "~" for each in token):
        raise InvalidArgumentError("a token must be visible ASCII and not empty")
    return token
