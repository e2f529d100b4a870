"""Operations on tables except commits (OpenAPI, `/v1/{prefix}/namespaces/{namespace}/tables`)."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Literal, TypeVar, Unpack, overload

from catalogclient import _identifiers, types
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._messages import UNSET, Call, HttpResponse, RawResponse, Unset
from catalogclient._operations import parsing
from catalogclient._operations.core import operation
from catalogclient._operations.namespaces import NamespaceOperations
from catalogclient._operations.request_parts import namespace_path, object_path, references, rename, require_name
from catalogclient._options import CallOptions, LoadOptions, MutationOptions, Snapshots, without_key
from catalogclient._results import LoadTableResult, TablePage, UnregisterTableResult
from catalogclient.errors import CatalogError, InvalidArgumentError

T = TypeVar("T")


class TableOperations(NamespaceOperations):
    @operation
    async def list_tables(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> TablePage:
        """Return a page of the tables of a namespace. Raises NoSuchNamespaceError."""
        return await self._call(
            Endpoint.LIST_TABLES, parsing.table_page, namespace_path(namespace), page=(page_size, page_token), **call
        )

    def iter_tables(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[TableIdentifier, None]:
        """Iterate over all tables of a namespace. Pages are requested on demand. Raises as list_tables."""
        return self._items(functools.partial(self.list_tables, namespace), page_size, call)

    @operation
    async def create_table(
        self,
        namespace: NamespaceLike,
        request: types.CreateTableRequest,
        *,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[MutationOptions],
    ) -> types.TableMetadata:
        """Create a table, or with `"stage-create": True` prepare it for a commit. Raises as create_table_result."""
        result = await self.create_table_result(namespace, request, access_delegation=access_delegation, **call)
        return result.metadata

    @operation
    async def create_table_result(
        self,
        namespace: NamespaceLike,
        request: types.CreateTableRequest,
        *,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[MutationOptions],
    ) -> LoadTableResult:
        """Do the same as create_table and return configuration and credentials as well.

        Raises NoSuchNamespaceError, and AlreadyExistsError if a table or view has that name. Source: OpenAPI,
        `createTable`.
        """
        return await self._call(
            Endpoint.CREATE_TABLE,
            parsing.table,
            namespace_path(namespace),
            # Nessie rejects a request without this key.
            body={"stage-create": False, **require_name(request)},
            access_delegation=access_delegation,
            **call,
        )

    @operation
    async def create_table_if_not_exists(
        self, namespace: NamespaceLike, request: types.CreateTableRequest, **call: Unpack[MutationOptions]
    ) -> types.TableMetadata:
        """Create a table, or load the table with that name. It may have another schema.

        Raises NoSuchTableError if a view has that name.
        """
        try:
            return await self.create_table(namespace, request, **call)
        except CatalogError as error:
            if error.status != 409:
                raise
        table = TableIdentifier(_identifiers.namespace(namespace).namespace, request["name"])
        return await self.load_table(table, **without_key(call))

    @overload
    async def load_table(self, table: TableLike, **load: Unpack[LoadOptions]) -> types.TableMetadata: ...

    @overload
    async def load_table(
        self, table: TableLike, *, if_none_match: str | None, **load: Unpack[LoadOptions]
    ) -> types.TableMetadata | None: ...

    @operation
    async def load_table(
        self, table: TableLike, *, if_none_match: str | None = None, **load: Unpack[LoadOptions]
    ) -> types.TableMetadata | None:
        """Return the metadata of a table, or None if its ETag still is `if_none_match`. Raises NoSuchTableError.

        Takes the same keywords as load_table_result.
        """
        result = await self._load(parsing.table, table, if_none_match, **load)
        return None if result is None else result.metadata

    @overload
    async def load_table_result(
        self, table: TableLike, *, raw: Literal[False] = False, **load: Unpack[LoadOptions]
    ) -> LoadTableResult: ...

    @overload
    async def load_table_result(
        self, table: TableLike, *, if_none_match: str | None, raw: Literal[False] = False, **load: Unpack[LoadOptions]
    ) -> LoadTableResult | None: ...

    @overload
    async def load_table_result(
        self, table: TableLike, *, raw: Literal[True], if_none_match: str | None = None, **load: Unpack[LoadOptions]
    ) -> RawResponse | None: ...

    @overload
    async def load_table_result(
        self, table: TableLike, *, raw: bool, if_none_match: str | None = None, **load: Unpack[LoadOptions]
    ) -> LoadTableResult | RawResponse | None: ...

    @operation
    async def load_table_result(
        self, table: TableLike, *, if_none_match: str | None = None, raw: bool = False, **load: Unpack[LoadOptions]
    ) -> LoadTableResult | RawResponse | None:
        """Do the same as load_table and return configuration, credentials and ETag as well.

        `snapshots="refs"` omits snapshots without a branch or tag. `referenced_by` are the views through which the
        table is read, outermost first. `access_delegation` replaces that of the options. `raw` returns the response
        unparsed, for metadata that does not fit into memory as objects. Source: OpenAPI, `loadTable`.
        """
        if raw:
            return await self._load(parsing.raw, table, if_none_match, **load)
        return await self._load(parsing.table, table, if_none_match, **load)

    async def _load(
        self,
        parse: Callable[[HttpResponse], T],
        table: TableLike,
        if_none_match: str | None,
        /,
        *,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> T | None:
        if snapshots not in (None, "all", "refs"):
            raise InvalidArgumentError("snapshots must be 'all' or 'refs'")
        prepared = Call(
            operation=OPERATIONS[Endpoint.LOAD_TABLE],
            values=object_path(table),
            query=(*((("snapshots", snapshots),) if snapshots else ()), *references(referenced_by)),
            wants_default_snapshots=snapshots is None,
            headers={"If-None-Match": if_none_match} if if_none_match else {},
            access_delegation=access_delegation,
            read=lambda response: None if response.status == 304 else parse(response),
        )
        return await self._send(prepared, **call)

    @operation
    async def table_exists(self, table: TableLike, **call: Unpack[CallOptions]) -> bool:
        """Return True if the table exists."""
        load = functools.partial(self._load, parsing.table, table, None, snapshots="refs", access_delegation=None)
        return await self._exists(Endpoint.TABLE_EXISTS, object_path(table), lambda: load(**call), **call)

    @operation
    async def drop_table(self, table: TableLike, *, purge: bool = False, **call: Unpack[MutationOptions]) -> None:
        """Drop a table. `purge` requests the server to delete its files. Raises NoSuchTableError."""
        await self._call(
            Endpoint.DROP_TABLE,
            parsing.ignore_body,
            object_path(table),
            query=(("purgeRequested", bool(purge)),),
            **call,
        )

    @operation
    async def register_table(
        self, namespace: NamespaceLike, request: types.RegisterTableRequest, **call: Unpack[MutationOptions]
    ) -> types.TableMetadata:
        """Create a table from an existing metadata file. Raises as register_table_result."""
        return (await self.register_table_result(namespace, request, **call)).metadata

    @operation
    async def register_table_result(
        self, namespace: NamespaceLike, request: types.RegisterTableRequest, **call: Unpack[MutationOptions]
    ) -> LoadTableResult:
        """Do the same as register_table and return configuration and credentials as well.

        Raises AlreadyExistsError and NoSuchNamespaceError. Some servers answer 404 for a missing metadata file, which
        raises NoSuchNamespaceError too: see its message and `type`. Source: OpenAPI, `registerTable`.
        """
        return await self._call(
            Endpoint.REGISTER_TABLE, parsing.table, namespace_path(namespace), body=require_name(request), **call
        )

    @operation
    async def unregister_table(self, table: TableLike, **call: Unpack[MutationOptions]) -> UnregisterTableResult:
        """Remove a table from the catalog and keep its files. Raises NoSuchTableError."""
        return await self._call(Endpoint.UNREGISTER_TABLE, parsing.unregistered_table, object_path(table), **call)

    @overload
    async def rename_table(self, request: types.RenameTableRequest, /, **call: Unpack[MutationOptions]) -> None: ...

    @overload
    async def rename_table(
        self, source: TableLike, destination: TableLike, /, **call: Unpack[MutationOptions]
    ) -> None: ...

    @operation
    async def rename_table(
        self,
        source: types.RenameTableRequest | TableLike,
        destination: TableLike | None = None,
        /,
        **call: Unpack[MutationOptions],
    ) -> None:
        """Rename a table or move it to another namespace.

        Raises NoSuchTableError, AlreadyExistsError, and UnsupportedOperationError if the server does not move tables.
        """
        await self._send(rename(source, destination, Endpoint.RENAME_TABLE), **call)
