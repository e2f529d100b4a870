"""Base classes of authentication managers, and the import of optional libraries."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, TypeGuard

from catalogclient import _call_scope
from catalogclient._messages import PreparedRequest
from catalogclient._options import RestCatalogOptions
from catalogclient.errors import InvalidArgumentError


class AuthManager(ABC):
    """Adds credentials to requests. Any number of threads may use one object."""

    def attach(self, options: RestCatalogOptions) -> None:  # noqa: B027  (an optional method)
        """Prepare for a catalog. Each catalog that uses this object calls it once, before the first request.

        `options` are the options of the catalog without `auth` and `session`, for managers that send requests.
        """

    def may_block(self) -> bool:
        """Return False if `apply` and `close` do not block now, so that AsyncRestCatalog needs no worker thread.

        `refresh` always runs in a worker thread there.
        """
        return True

    @abstractmethod
    def apply(self, request: PreparedRequest) -> None:
        """Set header fields of `request`. The catalog calls it for every attempt, after all other fields are set."""

    def refresh(self, *, reason: int) -> bool:
        """Renew the credentials after status 401 or 419 (`reason`). Returns True if a retry can use new credentials."""
        return False

    def close(self) -> None:  # noqa: B027  (an optional method)
        """Close connections."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> str:
        raise TypeError(f"{type(self).__name__} holds credentials and cannot be copied or pickled")


class TokenAuth(AuthManager):
    """Base class for managers that send a bearer token."""

    @abstractmethod
    def token(self) -> str:
        """Return the current token."""

    @abstractmethod
    def renew(self, *, rejected: str | None) -> str:
        """Return a token other than `rejected`, or `rejected` if there is no other token."""

    def apply(self, request: PreparedRequest) -> None:
        token = validate_token(self.token())
        scope = _call_scope.current()
        if scope is not None:
            scope.applied_token = token
        request.headers["Authorization"] = f"Bearer {token}"

    def refresh(self, *, reason: int) -> bool:
        scope = _call_scope.current()
        rejected = scope.applied_token if scope is not None else None
        return self.renew(rejected=rejected) != rejected


def is_token(token: object) -> TypeGuard[str]:
    """Return True for a non-empty string of visible ASCII characters."""
    return isinstance(token, str) and token != "" and all("!" <= character <= "~" for character in token)


def validate_token(token: object) -> str:
    """Return `token`. Raises InvalidArgumentError if it is empty or contains other than visible ASCII characters."""
    if not is_token(token):
        raise InvalidArgumentError("a token must be a non-empty string of visible ASCII characters")
    return token


def import_extra(name: str, *, extra: str) -> Any:
    """Import a module. Raises InvalidArgumentError that names the extra if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidArgumentError(f"this type of auth requires catalogclient[{extra}]") from None
