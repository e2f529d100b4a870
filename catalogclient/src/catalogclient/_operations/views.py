"""Operations on views and functions (OpenAPI, `.../views` and `.../functions`)."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Sequence
from typing import Unpack, overload

from catalogclient import types
from catalogclient._endpoints import Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._operations import parsing
from catalogclient._operations.core import operation
from catalogclient._operations.namespaces import NamespaceOperations
from catalogclient._operations.request_parts import (
    namespace_path,
    object_path,
    references,
    rename,
    require_name,
    with_plain_identifier,
)
from catalogclient._options import CallOptions, MutationOptions
from catalogclient._results import FunctionPage, LoadFunctionResult, LoadViewResult, ViewPage


class ViewOperations(NamespaceOperations):
    @operation
    async def list_views(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> ViewPage:
        """Return a page of the views of a namespace. Raises NoSuchNamespaceError."""
        return await self._call(
            Endpoint.LIST_VIEWS, parsing.view_page, namespace_path(namespace), page=(page_size, page_token), **call
        )

    def iter_views(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[TableIdentifier, None]:
        """Iterate over all views of a namespace. Pages are requested on demand. Raises as list_views."""
        return self._items(functools.partial(self.list_views, namespace), page_size, call)

    @operation
    async def create_view(
        self, namespace: NamespaceLike, request: types.CreateViewRequest, **call: Unpack[MutationOptions]
    ) -> types.ViewMetadata:
        """Create a view. Raises NoSuchNamespaceError, and AlreadyExistsError if a table or view has that name."""
        return (await self.create_view_result(namespace, request, **call)).metadata

    @operation
    async def create_view_result(
        self, namespace: NamespaceLike, request: types.CreateViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """Do the same as create_view and return location and configuration. Source: OpenAPI, `createView`."""
        return await self._call(
            Endpoint.CREATE_VIEW, parsing.view, namespace_path(namespace), body=require_name(request), **call
        )

    @operation
    async def load_view(
        self, view: TableLike, *, referenced_by: Sequence[TableLike] | None = None, **call: Unpack[CallOptions]
    ) -> types.ViewMetadata:
        """Return the metadata of a view. Raises NoSuchViewError."""
        return (await self.load_view_result(view, referenced_by=referenced_by, **call)).metadata

    @operation
    async def load_view_result(
        self, view: TableLike, *, referenced_by: Sequence[TableLike] | None = None, **call: Unpack[CallOptions]
    ) -> LoadViewResult:
        """Do the same as load_view and return location and configuration as well.

        `referenced_by` are the views through which the view is read, outermost first. Source: OpenAPI, `loadView`.
        """
        return await self._call(
            Endpoint.LOAD_VIEW, parsing.view, object_path(view, "view"), query=references(referenced_by), **call
        )

    @operation
    async def replace_view(
        self, view: TableLike, request: types.CommitViewRequest, **call: Unpack[MutationOptions]
    ) -> types.ViewMetadata:
        """Change a view. Raises NoSuchViewError, CommitFailedError, CommitStateUnknownError."""
        return (await self.replace_view_result(view, request, **call)).metadata

    @operation
    async def replace_view_result(
        self, view: TableLike, request: types.CommitViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """Do the same as replace_view and return location and configuration. Source: OpenAPI, `replaceView`."""
        return await self._call(
            Endpoint.REPLACE_VIEW,
            parsing.view,
            object_path(view, "view"),
            body=with_plain_identifier(request),
            **call,
        )

    @operation
    async def view_exists(self, view: TableLike, **call: Unpack[CallOptions]) -> bool:
        """Return True if the view exists."""
        return await self._exists(
            Endpoint.VIEW_EXISTS, object_path(view, "view"), lambda: self.load_view_result(view, **call), **call
        )

    @operation
    async def drop_view(self, view: TableLike, **call: Unpack[MutationOptions]) -> None:
        """Drop a view. Raises NoSuchViewError."""
        await self._call(Endpoint.DROP_VIEW, parsing.ignore_body, object_path(view, "view"), **call)

    @overload
    async def rename_view(self, request: types.RenameTableRequest, /, **call: Unpack[MutationOptions]) -> None: ...

    @overload
    async def rename_view(
        self, source: TableLike, destination: TableLike, /, **call: Unpack[MutationOptions]
    ) -> None: ...

    @operation
    async def rename_view(
        self,
        source: types.RenameTableRequest | TableLike,
        destination: TableLike | None = None,
        /,
        **call: Unpack[MutationOptions],
    ) -> None:
        """Rename a view or move it to another namespace. Raises NoSuchViewError, AlreadyExistsError."""
        await self._send(rename(source, destination, Endpoint.RENAME_VIEW), **call)

    @operation
    async def register_view(
        self, namespace: NamespaceLike, request: types.RegisterViewRequest, **call: Unpack[MutationOptions]
    ) -> types.ViewMetadata:
        """Create a view from an existing metadata file. Raises NoSuchNamespaceError, AlreadyExistsError."""
        return (await self.register_view_result(namespace, request, **call)).metadata

    @operation
    async def register_view_result(
        self, namespace: NamespaceLike, request: types.RegisterViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """Do the same as register_view and return location and configuration. Source: OpenAPI, `registerView`."""
        return await self._call(
            Endpoint.REGISTER_VIEW, parsing.view, namespace_path(namespace), body=require_name(request), **call
        )

    @operation
    async def list_functions(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> FunctionPage:
        """Return a page of the functions of a namespace. Raises NoSuchNamespaceError."""
        return await self._call(
            Endpoint.LIST_FUNCTIONS,
            parsing.function_page,
            namespace_path(namespace),
            page=(page_size, page_token),
            **call,
        )

    def iter_functions(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[tuple[str, ...], None]:
        """Iterate over all functions of a namespace as tuples of levels and name. Pages are requested on demand."""
        return self._items(functools.partial(self.list_functions, namespace), page_size, call)

    @operation
    async def load_function(self, function: TableLike, **call: Unpack[CallOptions]) -> types.FunctionMetadata:
        """Return the metadata of a function. Raises NoSuchFunctionError, NoSuchNamespaceError."""
        return (await self.load_function_result(function, **call)).metadata

    @operation
    async def load_function_result(self, function: TableLike, **call: Unpack[CallOptions]) -> LoadFunctionResult:
        """Do the same as load_function and return the location as well. Source: OpenAPI, `loadFunction`."""
        return await self._call(Endpoint.LOAD_FUNCTION, parsing.function, object_path(function, "function"), **call)
