"""Static credentials: none, bearer token, header field, basic, and header fields from a callable."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from catalogclient import _headers
from catalogclient._messages import PreparedRequest
from catalogclient.auth._base import AuthManager, TokenAuth, validate_token
from catalogclient.errors import CatalogError, InvalidArgumentError


class NoAuth(AuthManager):
    """No credentials."""

    def may_block(self) -> bool:
        return False

    def apply(self, request: PreparedRequest) -> None:
        """Set nothing."""


class BearerAuth(TokenAuth):
    """`Authorization: Bearer <token>` (RFC 6750). A callable is called for the token at every attempt."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        self._source: Callable[[], str] | None = None if isinstance(token, str) else token
        self._token = validate_token(token) if isinstance(token, str) else ""
        if not isinstance(token, str) and not callable(token):
            raise InvalidArgumentError("token must be a string or a callable")

    def may_block(self) -> bool:
        return self._source is not None

    def token(self) -> str:
        return self._token if self._source is None else validate_token(self._source())

    def renew(self, *, rejected: str | None) -> str:
        return self.token()


class HeaderAuth(AuthManager):
    """One header field with a fixed value."""

    def may_block(self) -> bool:
        return False

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
    """Header fields from a callable, which is called at every attempt."""

    def __init__(self, get_headers: Callable[[], Mapping[str, str]]) -> None:
        if not callable(get_headers):
            raise InvalidArgumentError("get_headers must be a callable")
        self._get_headers = get_headers

    def apply(self, request: PreparedRequest) -> None:
        try:
            fields = dict(self._get_headers())
        except CatalogError:
            raise
        except Exception as error:
            raise CatalogError(f"get_headers raised {type(error).__name__}") from error
        request.headers.update(fields)


class BasicAuth(AuthManager):
    """Basic authentication (RFC 7617) in UTF-8."""

    def may_block(self) -> bool:
        return False

    def __init__(self, username: str, password: str) -> None:
        if ":" in username:
            raise InvalidArgumentError("a user name must not contain a colon")
        self._username = username
        self._field = basic(username, password)

    def apply(self, request: PreparedRequest) -> None:
        request.headers["Authorization"] = self._field

    def __repr__(self) -> str:
        return f"BasicAuth(username={self._username!r})"


def basic(username: str, password: str) -> str:
    """Return the value of the Authorization header for basic authentication."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
