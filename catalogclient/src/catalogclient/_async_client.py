"""AsyncRestCatalog, the asynchronous client of one catalog."""

from __future__ import annotations

from typing import Self

from catalogclient._constructors import CatalogConstructors, open_auth
from catalogclient._operations import CatalogOperations
from catalogclient._operations.core import Core
from catalogclient._options import RestCatalogOptions
from catalogclient.auth._base import AuthManager
from catalogclient.auth._config import AuthConfig
from catalogclient.errors import InvalidArgumentError


class AsyncRestCatalog(CatalogConstructors, CatalogOperations):
    """Client of an Iceberg REST catalog for asyncio. Any number of tasks of one event loop may use an object.

    It has the same operations, options and errors as RestCatalog. Operations are coroutines, `iter_*` are asynchronous
    generators, and `plan_scan` is an asynchronous iterator. Requires the extra `async`.
    """

    def _open(self, options: RestCatalogOptions) -> None:
        if options.session is not None:
            raise InvalidArgumentError("session is an option of RestCatalog only")
        try:
            # Importing asyncio and httpx takes longer than importing this library.
            from catalogclient._async_transport import AsyncioRuntime, AsyncTransport  # noqa: PLC0415  (extra)
        except ModuleNotFoundError as missing:
            if missing.name != "httpx":
                raise
            raise InvalidArgumentError("AsyncRestCatalog requires catalogclient[async]") from None
        auth, owns_auth = open_auth(options.auth)
        Core.__init__(self, options, AsyncioRuntime(AsyncTransport(options)), auth=auth, owns_auth=owns_auth)

    def with_auth(self, auth: AuthConfig | AuthManager) -> Self:
        """Return a catalog with other credentials. It shares connections and configuration. Close it separately."""
        manager, owns_auth = open_auth(auth)
        return self._sibling(manager, owns_auth=owns_auth)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
