"""Credentials that are given: none, a token, a header field, a user and password, or whatever a callable says."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from catalogclient import _headers
from catalogclient._messages import PreparedRequest
from catalogclient.auth._base import AuthManager, TokenAuth, visible
from catalogclient.errors import CatalogError, InvalidArgumentError


class NoAuth(AuthManager):
    """No credentials."""

    def apply(self, request: PreparedRequest) -> None:
        """Nothing is set."""


class BearerAuth(TokenAuth):
    """`Authorization: Bearer <token>` (RFC 6750); a callable is asked for the token at every attempt."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        super().__init__()
        self._source: Callable[[], str] | None = None if isinstance(token, str) else token
        self._given = visible(token) if isinstance(token, str) else ""
        if not isinstance(token, str) and not callable(token):
            raise InvalidArgumentError("token must be text or a callable")

    def token(self) -> str:
        return self._given if self._source is None else visible(self._source())

    def renew(self, *, refused: str | None) -> str:
        return self.token()


class HeaderAuth(AuthManager):
    """One header field of the caller's choice."""

    def __init__(self, name: str, value: str) -> None:
        _headers.check_name(name)
        _headers.check_value(value)
        if name.lower() in _headers.RESERVED - {"authorization", "proxy-authorization", "cookie"}:
            raise InvalidArgumentError(f"the header field {name} cannot carry credentials")
        self._name = name
        self._value = value

    def apply(self, request: PreparedRequest) -> None:
        request.headers[self._name] = self._value

    def __repr__(self) -> str:
        return f"HeaderAuth(name={self._name!r})"


class CustomAuth(AuthManager):
    """Header fields that a callable returns, asked at every attempt."""

    def __init__(self, get_headers: Callable[[], Mapping[str, str]]) -> None:
        if not callable(get_headers):
            raise InvalidArgumentError("get_headers must be a callable")
        self._get_headers = get_headers

    def apply(self, request: PreparedRequest) -> None:
        try:
            found = dict(self._get_headers())
        except CatalogError:
            raise
        except Exception as error:
            raise CatalogError(f"the callable that returns credentials failed: {type(error).__name__}") from error
        request.headers.update(found)


class BasicAuth(AuthManager):
    """User and password (RFC 7617), in UTF-8."""

    def __init__(self, username: str, password: str) -> None:
        if ":" in username:
            raise InvalidArgumentError("a user name cannot hold a colon")
        self._username = username
        self._field = basic(username, password)

    def apply(self, request: PreparedRequest) -> None:
        request.headers["Authorization"] = self._field

    def __repr__(self) -> str:
        return f"BasicAuth(username={self._username!r})"


def basic(username: str, password: str) -> str:
    """The value of Authorization for user and password."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
