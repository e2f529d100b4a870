"""Constructors of the blocking and the asynchronous client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, overload

from catalogclient import _properties
from catalogclient._options import OptionFields, RestCatalogOptions
from catalogclient.auth._base import AuthManager
from catalogclient.auth._config import AuthConfig, create_manager
from catalogclient.errors import InvalidArgumentError


class CatalogConstructors:
    """Constructors of both clients."""

    name: str | None = None
    """Name given to from_properties. It is not sent to the server."""

    @overload
    def __init__(self, base_url: str, **more: Unpack[OptionFields]) -> None: ...

    @overload
    def __init__(self, base_url: RestCatalogOptions, /) -> None: ...

    def __init__(self, base_url: str | RestCatalogOptions, **more: Any) -> None:
        """Create a client from `base_url` and fields of RestCatalogOptions as keywords, or from RestCatalogOptions."""
        if isinstance(base_url, RestCatalogOptions):
            if more:
                raise InvalidArgumentError("pass either options or keywords")
            options = base_url
        else:
            options = RestCatalogOptions(base_url=base_url, **more)
        self._open(options)

    if TYPE_CHECKING:

        def _open(self, options: RestCatalogOptions) -> None:
            """Create the connections and the authentication manager. Both clients define it."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, name: str | None = None) -> Self:
        """Create a catalog from properties of PyIceberg and the Java client: `uri`, `token`, `credential` and others.

        The server's configuration is always requested. Raises InvalidArgumentError for an invalid property.
        """
        catalog = cls(_properties.options(properties))
        catalog.name = name
        return catalog

    def __reduce__(self) -> NoReturn:
        raise TypeError("a catalog holds credentials and connections and cannot be copied or pickled")


def open_auth(auth: AuthConfig | AuthManager | None) -> tuple[AuthManager, bool]:
    """Return the manager for `auth`, and True if the catalog must close it."""
    return create_manager(auth), not isinstance(auth, AuthManager)
