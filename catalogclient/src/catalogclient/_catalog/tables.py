"""The operations of RestCatalog on tables: reading, creating, registering, renaming, dropping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Unpack, overload

from catalogclient import _identifiers, _pagination
from catalogclient._catalog.core import CallOptions, Core, MutationOptions
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._messages import UNSET, RawResponse, Unset
from catalogclient._operations import tables
from catalogclient._options import Snapshots
from catalogclient._results import LoadTableResult, TablePage, UnregisterTableResult
from catalogclient.errors import CatalogError
from catalogclient.types import CreateTableRequest, RegisterTableRequest, RenameTableRequest, TableMetadata


class TableMethods(Core):
    """Tables."""

    def list_tables(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> TablePage:
        """One page of the tables of a namespace. Raises NoSuchNamespaceError."""
        return self._send(tables.list_(namespace, page_size=page_size, page_token=page_token), **call)

    def iter_tables(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> Iterator[TableIdentifier]:
        """All tables of a namespace, page by page as they are taken. Raises as list_tables does."""
        return _pagination.items(
            lambda size, token: self.list_tables(namespace, page_size=size, page_token=token, **call),
            page_size=page_size,
            default_size=lambda: self._route().page_size,
        )

    def create_table(
        self,
        namespace: NamespaceLike,
        request: CreateTableRequest,
        *,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[MutationOptions],
    ) -> TableMetadata:
        """Create a table, or with `"stage-create": True` prepare one for a commit. Raises as create_table_result."""
        return self.create_table_result(namespace, request, access_delegation=access_delegation, **call).metadata

    def create_table_result(
        self,
        namespace: NamespaceLike,
        request: CreateTableRequest,
        *,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[MutationOptions],
    ) -> LoadTableResult:
        """The same, with configuration and credentials.

        Raises NoSuchNamespaceError, and AlreadyExistsError for the name of a table or view. Source: OpenAPI,
        `createTable`.
        """
        return self._send(tables.create(namespace, request, access_delegation=access_delegation), **call)

    def create_table_if_not_exists(
        self, namespace: NamespaceLike, request: CreateTableRequest, **call: Unpack[MutationOptions]
    ) -> TableMetadata:
        """Create a table, or load the one of that name, whatever its schema. Raises NoSuchTableError for a view's."""
        try:
            return self.create_table(namespace, request, **call)
        except CatalogError as error:
            if error.status != 409:
                raise
        again: CallOptions = {}
        if "timeout" in call:
            again["timeout"] = call["timeout"]
        if "headers" in call:
            again["headers"] = call["headers"]
        levels = _identifiers.namespace(namespace).namespace
        return self.load_table(TableIdentifier(levels, request["name"]), **again)

    @overload
    def load_table(
        self,
        table: TableLike,
        *,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> TableMetadata: ...

    @overload
    def load_table(
        self,
        table: TableLike,
        *,
        if_none_match: str | None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> TableMetadata | None: ...

    def load_table(
        self,
        table: TableLike,
        *,
        if_none_match: str | None = None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> TableMetadata | None:
        """The metadata of a table; None when it is still that of `if_none_match`. Raises NoSuchTableError."""
        result = self.load_table_result(
            table,
            if_none_match=if_none_match,
            snapshots=snapshots,
            referenced_by=referenced_by,
            access_delegation=access_delegation,
            **call,
        )
        return None if result is None else result.metadata

    @overload
    def load_table_result(
        self,
        table: TableLike,
        *,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> LoadTableResult: ...

    @overload
    def load_table_result(
        self,
        table: TableLike,
        *,
        if_none_match: str | None,
        snapshots: Snapshots | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[CallOptions],
    ) -> LoadTableResult | None: ...

    @overload
    def load_table_result(
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

    def load_table_result(
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
        """The same, with configuration, credentials and tag.

        `snapshots="refs"` leaves out those that no branch or tag names; `referenced_by` are the views through which
        the table is read, outermost first; `raw` gives the answer unread, for metadata too large to be had as objects.
        Source: OpenAPI, `loadTable`.
        """
        load: Any = tables.load_raw if raw else tables.load
        wanted = load(
            table,
            if_none_match=if_none_match,
            snapshots=self._route().snapshots if snapshots is None else snapshots,
            referenced_by=referenced_by,
            access_delegation=access_delegation,
        )
        result: LoadTableResult | RawResponse | None = self._send(wanted, **call)
        return result

    def table_exists(self, table: TableLike, **call: Unpack[CallOptions]) -> bool:
        """Whether a table is there."""
        return self._exists(tables.exists(table), tables.load_refs(table), **call)

    def drop_table(self, table: TableLike, *, purge: bool = False, **call: Unpack[MutationOptions]) -> None:
        """Drop a table; `purge` asks the server to delete its files. Raises NoSuchTableError."""
        self._send(tables.drop(table, purge=purge), **call)

    def register_table(
        self, namespace: NamespaceLike, request: RegisterTableRequest, **call: Unpack[MutationOptions]
    ) -> TableMetadata:
        """Make a table of a metadata file that exists. Raises as register_table_result."""
        return self.register_table_result(namespace, request, **call).metadata

    def register_table_result(
        self, namespace: NamespaceLike, request: RegisterTableRequest, **call: Unpack[MutationOptions]
    ) -> LoadTableResult:
        """The same, with configuration and credentials.

        Raises AlreadyExistsError, and NoSuchNamespaceError, which also stands for a metadata file that is not there
        where the server answers 404 to that: its message is the server's own, and `type` then no word for a namespace.
        Source: OpenAPI, `registerTable`.
        """
        return self._send(tables.register(namespace, request), **call)

    def unregister_table(self, table: TableLike, **call: Unpack[MutationOptions]) -> UnregisterTableResult:
        """Have the catalog forget a table and leave its files alone. Raises NoSuchTableError."""
        return self._send(tables.unregister(table), **call)

    @overload
    def rename_table(self, request: RenameTableRequest, /, **call: Unpack[MutationOptions]) -> None: ...

    @overload
    def rename_table(self, source: TableLike, destination: TableLike, /, **call: Unpack[MutationOptions]) -> None: ...

    def rename_table(
        self,
        source: RenameTableRequest | TableLike,
        destination: TableLike | None = None,
        /,
        **call: Unpack[MutationOptions],
    ) -> None:
        """Rename a table, or move it to another namespace.

        Raises NoSuchTableError, AlreadyExistsError, and UnsupportedOperationError where a server does not move.
        """
        self._send(tables.rename(source, destination), **call)
