"""The operations of RestCatalog on views and functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Unpack, overload

from catalogclient import _pagination
from catalogclient._catalog.core import CallOptions, Core, MutationOptions
from catalogclient._endpoints import Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._operations import functions, tables, views
from catalogclient._results import FunctionPage, LoadFunctionResult, LoadViewResult, ViewPage
from catalogclient.types import (
    CommitViewRequest,
    CreateViewRequest,
    FunctionMetadata,
    RegisterViewRequest,
    RenameTableRequest,
    ViewMetadata,
)


class ViewMethods(Core):
    """Views and functions."""

    def list_views(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> ViewPage:
        """One page of the views of a namespace. Raises NoSuchNamespaceError."""
        return self._send(views.list_(namespace, page_size=page_size, page_token=page_token), **call)

    def iter_views(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> Iterator[TableIdentifier]:
        """All views of a namespace, page by page as they are taken. Raises as list_views does."""
        return _pagination.items(
            lambda size, token: self.list_views(namespace, page_size=size, page_token=token, **call),
            page_size=page_size,
            default_size=lambda: self._route().page_size,
        )

    def create_view(
        self, namespace: NamespaceLike, request: CreateViewRequest, **call: Unpack[MutationOptions]
    ) -> ViewMetadata:
        """Create a view. Raises NoSuchNamespaceError, and AlreadyExistsError for the name of a table or view."""
        return self.create_view_result(namespace, request, **call).metadata

    def create_view_result(
        self, namespace: NamespaceLike, request: CreateViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """The same, with location and configuration. Source: OpenAPI, `createView`."""
        return self._send(views.create(namespace, request), **call)

    def load_view(
        self,
        view: TableLike,
        *,
        referenced_by: Sequence[TableLike] | None = None,
        **call: Unpack[CallOptions],
    ) -> ViewMetadata:
        """The metadata of a view. Raises NoSuchViewError."""
        return self.load_view_result(view, referenced_by=referenced_by, **call).metadata

    def load_view_result(
        self,
        view: TableLike,
        *,
        referenced_by: Sequence[TableLike] | None = None,
        **call: Unpack[CallOptions],
    ) -> LoadViewResult:
        """The same, with location and configuration; `referenced_by` are the views through which it is read."""
        return self._send(views.load(view, referenced_by=referenced_by), **call)

    def replace_view(
        self, view: TableLike, request: CommitViewRequest, **call: Unpack[MutationOptions]
    ) -> ViewMetadata:
        """Change a view. Raises NoSuchViewError, CommitFailedError, CommitStateUnknownError."""
        return self.replace_view_result(view, request, **call).metadata

    def replace_view_result(
        self, view: TableLike, request: CommitViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """The same, with location and configuration. Source: OpenAPI, `replaceView`."""
        return self._send(views.replace(view, request), **call)

    def view_exists(self, view: TableLike, **call: Unpack[CallOptions]) -> bool:
        """Whether a view is there."""
        return self._exists(views.exists(view), views.load(view, referenced_by=None), **call)

    def drop_view(self, view: TableLike, **call: Unpack[MutationOptions]) -> None:
        """Drop a view. Raises NoSuchViewError."""
        self._send(views.drop(view), **call)

    @overload
    def rename_view(self, request: RenameTableRequest, /, **call: Unpack[MutationOptions]) -> None: ...

    @overload
    def rename_view(self, source: TableLike, destination: TableLike, /, **call: Unpack[MutationOptions]) -> None: ...

    def rename_view(
        self,
        source: RenameTableRequest | TableLike,
        destination: TableLike | None = None,
        /,
        **call: Unpack[MutationOptions],
    ) -> None:
        """Rename a view, or move it to another namespace. Raises NoSuchViewError, AlreadyExistsError."""
        self._send(tables.rename(source, destination, endpoint=Endpoint.RENAME_VIEW), **call)

    def register_view(
        self, namespace: NamespaceLike, request: RegisterViewRequest, **call: Unpack[MutationOptions]
    ) -> ViewMetadata:
        """Make a view of a metadata file that exists. Raises NoSuchNamespaceError, AlreadyExistsError."""
        return self.register_view_result(namespace, request, **call).metadata

    def register_view_result(
        self, namespace: NamespaceLike, request: RegisterViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """The same, with location and configuration. Source: OpenAPI, `registerView`."""
        return self._send(views.register(namespace, request), **call)

    def list_functions(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> FunctionPage:
        """One page of the functions of a namespace. Raises NoSuchNamespaceError."""
        return self._send(functions.list_(namespace, page_size=page_size, page_token=page_token), **call)

    def iter_functions(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> Iterator[tuple[str, ...]]:
        """All functions of a namespace by levels and name, page by page as they are taken."""
        return _pagination.items(
            lambda size, token: self.list_functions(namespace, page_size=size, page_token=token, **call),
            page_size=page_size,
            default_size=lambda: self._route().page_size,
        )

    def load_function(self, function: TableLike, **call: Unpack[CallOptions]) -> FunctionMetadata:
        """The metadata of a function. Raises NoSuchFunctionError, NoSuchNamespaceError."""
        return self.load_function_result(function, **call).metadata

    def load_function_result(self, function: TableLike, **call: Unpack[CallOptions]) -> LoadFunctionResult:
        """The same, with location. Source: OpenAPI, `loadFunction`."""
        return self._send(functions.load(function), **call)
