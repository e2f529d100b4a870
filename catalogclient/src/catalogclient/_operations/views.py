"""Operations on views and functions (OpenAPI, `.../views` and `.../functions`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Unpack, overload

from catalogclient import _pagination
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._messages import Call, encode_json
from catalogclient._operations import requests, responses
from catalogclient._operations.core import operation
from catalogclient._operations.namespaces import NamespaceOperations
from catalogclient._options import CallOptions, MutationOptions
from catalogclient._results import FunctionPage, LoadFunctionResult, LoadViewResult, ViewPage
from catalogclient.types import (
    CommitViewRequest,
    CreateViewRequest,
    FunctionMetadata,
    RegisterViewRequest,
    RenameTableRequest,
    ViewMetadata,
)


class ViewOperations(NamespaceOperations):
    """Views and functions."""

    @operation
    async def list_views(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> ViewPage:
        """Returns a page of the views of a namespace. Raises NoSuchNamespaceError."""
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.LIST_VIEWS],
                values=requests.namespace_path(namespace),
                query=requests.page_parameters(page_size, page_token),
                read=responses.view_page,
            ),
            **call,
        )

    def iter_views(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[TableIdentifier, None]:
        """Iterates over all views of a namespace. Pages are requested on demand. Raises as list_views."""
        return _pagination.items(
            lambda size, token: self.list_views(namespace, page_size=size, page_token=token, **call),
            page_size=page_size,
            default_size=lambda: self._default_page_size(**call),
        )

    @operation
    async def create_view(
        self, namespace: NamespaceLike, request: CreateViewRequest, **call: Unpack[MutationOptions]
    ) -> ViewMetadata:
        """Creates a view. Raises NoSuchNamespaceError, and AlreadyExistsError if a table or view has that name."""
        return (await self.create_view_result(namespace, request, **call)).metadata

    @operation
    async def create_view_result(
        self, namespace: NamespaceLike, request: CreateViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """Does the same as create_view and returns location and configuration. Source: OpenAPI, `createView`."""
        return await self._send(_create(Endpoint.CREATE_VIEW, namespace, request), **call)

    @operation
    async def load_view(
        self, view: TableLike, *, referenced_by: Sequence[TableLike] | None = None, **call: Unpack[CallOptions]
    ) -> ViewMetadata:
        """Returns the metadata of a view. Raises NoSuchViewError."""
        return (await self.load_view_result(view, referenced_by=referenced_by, **call)).metadata

    @operation
    async def load_view_result(
        self, view: TableLike, *, referenced_by: Sequence[TableLike] | None = None, **call: Unpack[CallOptions]
    ) -> LoadViewResult:
        """Does the same as load_view and returns location and configuration as well.

        `referenced_by` are the views through which the view is read, outermost first. Source: OpenAPI, `loadView`.
        """
        return await self._send(_load(view, referenced_by), **call)

    @operation
    async def replace_view(
        self, view: TableLike, request: CommitViewRequest, **call: Unpack[MutationOptions]
    ) -> ViewMetadata:
        """Changes a view. Raises NoSuchViewError, CommitFailedError, CommitStateUnknownError."""
        return (await self.replace_view_result(view, request, **call)).metadata

    @operation
    async def replace_view_result(
        self, view: TableLike, request: CommitViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """Does the same as replace_view and returns location and configuration. Source: OpenAPI, `replaceView`."""
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.REPLACE_VIEW],
                values=requests.object_path(view, "view"),
                body=encode_json(requests.with_plain_identifier(request)),
                read=responses.view,
            ),
            **call,
        )

    @operation
    async def view_exists(self, view: TableLike, **call: Unpack[CallOptions]) -> bool:
        """Returns True if the view exists."""
        head = Call(
            operation=OPERATIONS[Endpoint.VIEW_EXISTS],
            values=requests.object_path(view, "view"),
            read=responses.nothing,
        )
        return await self._exists(head, _load(view, None), **call)

    @operation
    async def drop_view(self, view: TableLike, **call: Unpack[MutationOptions]) -> None:
        """Drops a view. Raises NoSuchViewError."""
        prepared = Call(
            operation=OPERATIONS[Endpoint.DROP_VIEW],
            values=requests.object_path(view, "view"),
            read=responses.nothing,
        )
        await self._send(prepared, **call)

    @overload
    async def rename_view(self, request: RenameTableRequest, /, **call: Unpack[MutationOptions]) -> None: ...

    @overload
    async def rename_view(
        self, source: TableLike, destination: TableLike, /, **call: Unpack[MutationOptions]
    ) -> None: ...

    @operation
    async def rename_view(
        self,
        source: RenameTableRequest | TableLike,
        destination: TableLike | None = None,
        /,
        **call: Unpack[MutationOptions],
    ) -> None:
        """Renames a view or moves it to another namespace. Raises NoSuchViewError, AlreadyExistsError."""
        await self._send(requests.rename(source, destination, Endpoint.RENAME_VIEW), **call)

    @operation
    async def register_view(
        self, namespace: NamespaceLike, request: RegisterViewRequest, **call: Unpack[MutationOptions]
    ) -> ViewMetadata:
        """Creates a view from an existing metadata file. Raises NoSuchNamespaceError, AlreadyExistsError."""
        return (await self.register_view_result(namespace, request, **call)).metadata

    @operation
    async def register_view_result(
        self, namespace: NamespaceLike, request: RegisterViewRequest, **call: Unpack[MutationOptions]
    ) -> LoadViewResult:
        """Does the same as register_view and returns location and configuration. Source: OpenAPI, `registerView`."""
        return await self._send(_create(Endpoint.REGISTER_VIEW, namespace, request), **call)

    @operation
    async def list_functions(
        self,
        namespace: NamespaceLike,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> FunctionPage:
        """Returns a page of the functions of a namespace. Raises NoSuchNamespaceError."""
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.LIST_FUNCTIONS],
                values=requests.namespace_path(namespace),
                query=requests.page_parameters(page_size, page_token),
                read=responses.function_page,
            ),
            **call,
        )

    def iter_functions(
        self, namespace: NamespaceLike, *, page_size: int | None = None, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[tuple[str, ...], None]:
        """Iterates over all functions of a namespace as tuples of levels and name. Pages are requested on demand."""
        return _pagination.items(
            lambda size, token: self.list_functions(namespace, page_size=size, page_token=token, **call),
            page_size=page_size,
            default_size=lambda: self._default_page_size(**call),
        )

    @operation
    async def load_function(self, function: TableLike, **call: Unpack[CallOptions]) -> FunctionMetadata:
        """Returns the metadata of a function. Raises NoSuchFunctionError, NoSuchNamespaceError."""
        return (await self.load_function_result(function, **call)).metadata

    @operation
    async def load_function_result(self, function: TableLike, **call: Unpack[CallOptions]) -> LoadFunctionResult:
        """Does the same as load_function and returns the location as well. Source: OpenAPI, `loadFunction`."""
        prepared = Call(
            operation=OPERATIONS[Endpoint.LOAD_FUNCTION],
            values=requests.object_path(function, "function"),
            read=responses.function,
        )
        return await self._send(prepared, **call)


def _create(endpoint: Endpoint, namespace: NamespaceLike, request: Mapping[str, Any]) -> Call[LoadViewResult]:
    return Call(
        operation=OPERATIONS[endpoint],
        values=requests.namespace_path(namespace),
        body=encode_json(requests.named(request)),
        read=responses.view,
    )


def _load(view: TableLike, referenced_by: Sequence[TableLike] | None) -> Call[LoadViewResult]:
    return Call(
        operation=OPERATIONS[Endpoint.LOAD_VIEW],
        values=requests.object_path(view, "view"),
        query=requests.references(referenced_by),
        read=responses.view,
    )
