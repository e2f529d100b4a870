"""Operations on tables except commits (OpenAPI, `/v1/{prefix}/namespaces/{namespace}/tables`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from catalogclient import _identifiers, _pagination
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._messages import UNSET, Call, RawResponse, Reply, Unset, encode_json
from catalogclient._operations import requests, responses
from catalogclient._operations.core import operation
from catalogclient._operations.namespaces import NamespaceOperations
from catalogclient._options import CallOptions, MutationOptions, Snapshots, without_key
from catalogclient._results import LoadTableResult, TablePage, UnregisterTableResult
from catalogclient.errors import CatalogError, InvalidArgumentError
from catalogclient.types import CreateTableRequest, RegisterTableRequest, RenameTableRequest, TableMetadata

T = TypeVar("T")


class TableOperations(NamespaceOperations):
    """Tables."""

    @operation
    async def list_tables(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> TablePage:
        """Returns a page of the tables of a namespace. Raises NoSuchNamespaceError."""
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.LIST_TABLES],
                values=requests.namespace_path(namespace),
                query=requests.page_parameters(page_size, page_token),
                read=responses.table_page,
            ),
            **call,
        )

    def iter_tables(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[TableIdentifier, None]:
        """Iterates over all tables of a namespace. Pages are requested on demand. Raises as list_tables."""
        return _pagination.items(
            lambda size, token: self.list_tables(namespace, page_size=size, page_token=token, **call),
            page_size=page_size,
            default_size=lambda: self._default_page_size(**call),
        )

    @operation
    async def create_table(
        self,
        namespace: NamespaceLike,
        request: CreateTableRequest,
        *,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[MutationOptions],
    ) -> TableMetadata:
        """Creates a table, or with `"stage-create": True` prepares it for a commit. Raises as create_table_result."""
        result = await self.create_table_result(namespace, request, access_delegation=access_delegation, **call)
        return result.metadata

    @operation
    async def create_table_result(
        self,
        namespace: NamespaceLike,
        request: CreateTableRequest,
        *,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[MutationOptions],
    ) -> LoadTableResult:
        """Does the same as create_table and returns configuration and credentials as well.

        Raises NoSuchNamespaceError, and AlreadyExistsError if a table or view has that name. Source: OpenAPI,
        `createTable`.
        """
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.CREATE_TABLE],
                values=requests.namespace_path(namespace),
                # Nessie rejects a request without this key.
                body=encode_json({"stage-create": False, **requests.named(request)}),
                access_delegation=access_delegation,
                read=responses.table,
            ),
            **call,
        )

    @operation
    async def create_table_if_not_exists(
        self, namespace: NamespaceLike, request: CreateTableRequest, **call: Unpack[MutationOptions]
    ) -> TableMetadata:
        """Creates a table, or loads the table with that name. It may have another schema.

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
    async def load_table(
        self,
        table: TableLike,
        *,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> TableMetadata: ...

    @overload
    async def load_table(
        self,
        table: TableLike,
        *,
        if_none_match: str | None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> TableMetadata | None: ...

    @operation
    async def load_table(
        self,
        table: TableLike,
        *,
        if_none_match: str | None = None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> TableMetadata | None:
        """Returns the metadata of a table, or None if its ETag still is `if_none_match`. Raises NoSuchTableError."""
        result = await self._send(
            _load(table, if_none_match, snapshots, referenced_by, access_delegation, responses.table), **call
        )
        return None if result is None else result.metadata

    @overload
    async def load_table_result(
        self,
        table: TableLike,
        *,
        raw: Literal[False] = False,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> LoadTableResult: ...

    @overload
    async def load_table_result(
        self,
        table: TableLike,
        *,
        if_none_match: str | None,
        raw: Literal[False] = False,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> LoadTableResult | None: ...

    @overload
    async def load_table_result(
        self,
        table: TableLike,
        *,
        raw: Literal[True],
        if_none_match: str | None = None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> RawResponse | None: ...

    @overload
    async def load_table_result(
        self,
        table: TableLike,
        *,
        raw: bool,
        if_none_match: str | None = None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> LoadTableResult | RawResponse | None: ...

    @operation
    async def load_table_result(
        self,
        table: TableLike,
        *,
        if_none_match: str | None = None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        raw: bool = False,
        **call: Unpack[CallOptions],
    ) -> LoadTableResult | RawResponse | None:
        """Does the same as load_table and returns configuration, credentials and ETag as well.

        `snapshots="refs"` omits snapshots without a branch or tag. `referenced_by` are the views through which the
        table is read, outermost first. `raw` returns the response unparsed, for metadata that does not fit into memory
        as objects. Source: OpenAPI, `loadTable`.
        """
        read: Any = responses.raw if raw else responses.table
        result: LoadTableResult | RawResponse | None = await self._send(
            _load(table, if_none_match, snapshots, referenced_by, access_delegation, read), **call
        )
        return result

    @operation
    async def table_exists(self, table: TableLike, **call: Unpack[CallOptions]) -> bool:
        """Returns True if the table exists."""
        head = Call(
            operation=OPERATIONS[Endpoint.TABLE_EXISTS], values=requests.object_path(table), read=responses.nothing
        )
        return await self._exists(head, _load(table, None, "refs", None, None, responses.table), **call)

    @operation
    async def drop_table(self, table: TableLike, *, purge: bool = False, **call: Unpack[MutationOptions]) -> None:
        """Drops a table. `purge` requests the server to delete its files. Raises NoSuchTableError."""
        prepared = Call(
            operation=OPERATIONS[Endpoint.DROP_TABLE],
            values=requests.object_path(table),
            query=(("purgeRequested", bool(purge)),),
            read=responses.nothing,
        )
        await self._send(prepared, **call)

    @operation
    async def register_table(
        self, namespace: NamespaceLike, request: RegisterTableRequest, **call: Unpack[MutationOptions]
    ) -> TableMetadata:
        """Creates a table from an existing metadata file. Raises as register_table_result."""
        return (await self.register_table_result(namespace, request, **call)).metadata

    @operation
    async def register_table_result(
        self, namespace: NamespaceLike, request: RegisterTableRequest, **call: Unpack[MutationOptions]
    ) -> LoadTableResult:
        """Does the same as register_table and returns configuration and credentials as well.

        Raises AlreadyExistsError and NoSuchNamespaceError. Some servers answer 404 for a missing metadata file, which
        raises NoSuchNamespaceError too: see its message and `type`. Source: OpenAPI, `registerTable`.
        """
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.REGISTER_TABLE],
                values=requests.namespace_path(namespace),
                body=encode_json(requests.named(request)),
                read=responses.table,
            ),
            **call,
        )

    @operation
    async def unregister_table(self, table: TableLike, **call: Unpack[MutationOptions]) -> UnregisterTableResult:
        """Removes a table from the catalog and keeps its files. Raises NoSuchTableError."""
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.UNREGISTER_TABLE],
                values=requests.object_path(table),
                read=responses.unregistered_table,
            ),
            **call,
        )

    @overload
    async def rename_table(self, request: RenameTableRequest, /, **call: Unpack[MutationOptions]) -> None: ...

    @overload
    async def rename_table(
        self, source: TableLike, destination: TableLike, /, **call: Unpack[MutationOptions]
    ) -> None: ...

    @operation
    async def rename_table(
        self,
        source: RenameTableRequest | TableLike,
        destination: TableLike | None = None,
        /,
        **call: Unpack[MutationOptions],
    ) -> None:
        """Renames a table or moves it to another namespace.

        Raises NoSuchTableError, AlreadyExistsError, and UnsupportedOperationError if the server does not move tables.
        """
        await self._send(requests.rename(source, destination, Endpoint.RENAME_TABLE), **call)


def _load(
    table: TableLike,
    if_none_match: str | None,
    snapshots: str | None,
    referenced_by: Sequence[TableLike] | None,
    access_delegation: Sequence[str] | Unset | None,
    parse: Any,
) -> Call[Any]:
    if snapshots not in (None, "all", "refs"):
        raise InvalidArgumentError("snapshots must be 'all' or 'refs'")

    def read(reply: Reply) -> Any:
        return None if reply.status == 304 else parse(reply)

    return Call(
        operation=OPERATIONS[Endpoint.LOAD_TABLE],
        values=requests.object_path(table),
        query=(*((("snapshots", snapshots),) if snapshots else ()), *requests.references(referenced_by)),
        wants_default_snapshots=snapshots is None,
        headers={"If-None-Match": if_none_match} if if_none_match else {},
        access_delegation=access_delegation,
        read=read,
    )
