"""RestCatalog, the client of one catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack, overload

from catalogclient import _properties as properties_
from catalogclient._catalog.access import AccessMethods
from catalogclient._catalog.commits import CommitMethods
from catalogclient._catalog.namespaces import NamespaceMethods
from catalogclient._catalog.views import ViewMethods
from catalogclient._options import OptionFields, RestCatalogOptions
from catalogclient._sharing import Shared
from catalogclient.errors import InvalidArgumentError


class RestCatalog(NamespaceMethods, CommitMethods, AccessMethods, ViewMethods):
    """A catalog that speaks the Iceberg REST interface. One object serves any number of threads.

    Every operation takes `timeout` (seconds; one number, or a pair for connecting and reading) and `headers` for that
    call alone, and every change `idempotency_key`. Whatever fails raises CatalogError.
    """

    @overload
    def __init__(self, base_url: str, **more: Unpack[OptionFields]) -> None: ...

    @overload
    def __init__(self, base_url: RestCatalogOptions, /) -> None: ...

    def __init__(self, base_url: str | RestCatalogOptions, **more: Any) -> None:
        """`base_url` with any field of RestCatalogOptions as keyword, or the options as a whole."""
        if isinstance(base_url, RestCatalogOptions):
            if more:
                raise InvalidArgumentError("give options or keywords, not both")
            options = base_url
        else:
            options = RestCatalogOptions(base_url=base_url, **more)
        self._begin(options, Shared(options), options.auth)

    name: str | None = None
    """What from_properties was told; the server does not learn it."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, name: str | None = None) -> Self:
        """A catalog from properties as PyIceberg and the Java client know them: `uri`, `token`, `credential` and so on.

        The server's configuration is always asked for, and its word on the prefix is taken. `name` is for the caller's
        own use. Raises InvalidArgumentError for a property that cannot be used.
        """
        catalog = cls(properties_.options(properties))
        catalog.name = name
        return catalog
