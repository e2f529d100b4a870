"""Operations on namespaces (OpenAPI, `/v1/{prefix}/namespaces`)."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Unpack

from catalogclient import _identifiers, _pagination
from catalogclient._endpoints import Endpoint
from catalogclient._identifiers import NamespaceIdentifier, NamespaceLike
from catalogclient._messages import HttpResponse
from catalogclient._operations import parsing
from catalogclient._operations.core import Core, operation
from catalogclient._operations.request_parts import namespace_path
from catalogclient._options import CallOptions, MutationOptions
from catalogclient._results import NamespaceMetadata, NamespacePage, UpdateNamespacePropertiesResult
from catalogclient._urls import Levels
from catalogclient.errors import CatalogError, InvalidArgumentError
from catalogclient.types import UpdateNamespacePropertiesRequest


class NamespaceOperations(Core):
    @operation
    async def list_namespaces(
        self,
        *,
        parent: NamespaceLike | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> NamespacePage:
        """Return a page of the top-level namespaces, or of the children of `parent`.

        Raises NoSuchNamespaceError for an unknown parent.
        """
        above = _identifiers.parent(parent)
        return await self._call(
            Endpoint.LIST_NAMESPACES,
            parsing.namespace_page,
            query=(("parent", Levels(above.namespace)),) if above else (),
            page=(page_size, page_token),
            **call,
        )

    def iter_namespaces(
        self,
        *,
        parent: NamespaceLike | None = None,
        page_size: int | None = None,
        recursive: bool = False,
        **call: Unpack[CallOptions],
    ) -> AsyncGenerator[NamespaceIdentifier, None]:
        """Iterate over the top-level namespaces, or the children of `parent`. `recursive` adds all descendants.

        Pages are requested on demand. Namespaces that are dropped meanwhile are skipped. Raises as list_namespaces,
        and InvalidResponseError for a server that never ends the list.
        """

        def children(above: NamespaceLike | None) -> AsyncGenerator[NamespaceIdentifier, None]:
            return self._items(functools.partial(self.list_namespaces, parent=above), page_size, call)

        return _pagination.breadth_first(children, parent) if recursive else children(parent)

    @operation
    async def create_namespace(
        self, namespace: NamespaceLike, properties: Mapping[str, str] | None = None, **call: Unpack[MutationOptions]
    ) -> NamespaceMetadata:
        """Create a namespace. Raises AlreadyExistsError. Source: OpenAPI, `createNamespace`."""
        levels = _identifiers.namespace(namespace).namespace
        document: dict[str, Any] = {"namespace": list(levels)}
        if properties is not None:
            document["properties"] = dict(properties)

        def read(response: HttpResponse) -> NamespaceMetadata:
            if parsing.looks_like_json(response):
                return parsing.namespace(parsing.document(response), levels)
            # Some servers send no body.
            parsing.ignore_body(response)
            return parsing.namespace(dict(document), levels)

        return await self._call(Endpoint.CREATE_NAMESPACE, read, body=document, **call)

    @operation
    async def create_namespace_if_not_exists(
        self, namespace: NamespaceLike, properties: Mapping[str, str] | None = None, **call: Unpack[MutationOptions]
    ) -> NamespaceMetadata | None:
        """Create a namespace. Returns None if it exists, and does not change its properties then."""
        try:
            return await self.create_namespace(namespace, properties, **call)
        except CatalogError as error:
            if error.status != 409:
                raise
            return None

    @operation
    async def load_namespace_metadata(self, namespace: NamespaceLike, **call: Unpack[CallOptions]) -> NamespaceMetadata:
        """Return a namespace with its properties. Raises NoSuchNamespaceError."""
        levels = _identifiers.namespace(namespace).namespace

        def read(response: HttpResponse) -> NamespaceMetadata:
            return parsing.namespace(parsing.document(response), levels)

        return await self._call(Endpoint.LOAD_NAMESPACE_METADATA, read, {"namespace": levels}, **call)

    @operation
    async def namespace_exists(self, namespace: NamespaceLike, **call: Unpack[CallOptions]) -> bool:
        """Return True if the namespace exists."""
        return await self._exists(
            Endpoint.NAMESPACE_EXISTS,
            namespace_path(namespace),
            lambda: self.load_namespace_metadata(namespace, **call),
            **call,
        )

    @operation
    async def drop_namespace(self, namespace: NamespaceLike, **call: Unpack[MutationOptions]) -> None:
        """Drop an empty namespace. Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        await self._call(Endpoint.DROP_NAMESPACE, parsing.ignore_body, namespace_path(namespace), **call)

    @operation
    async def update_namespace_properties(
        self,
        namespace: NamespaceLike,
        request: UpdateNamespacePropertiesRequest | None = None,
        *,
        updates: Mapping[str, str] | None = None,
        removals: Iterable[str] | None = None,
        **call: Unpack[MutationOptions],
    ) -> UpdateNamespacePropertiesResult:
        """Set and remove properties. Takes a request or the keywords.

        Raises NoSuchNamespaceError, and UnprocessableEntityError for a name that is set and removed. Source: OpenAPI,
        `updateProperties`.
        """
        if request is not None and (updates is not None or removals is not None):
            raise InvalidArgumentError("pass either the request or updates and removals")
        document: dict[str, Any] = dict(request or {})
        if removals is not None:
            document["removals"] = removals
        if updates is not None:
            document["updates"] = dict(updates)
        if document.get("removals") is not None:
            if isinstance(document["removals"], str):
                raise InvalidArgumentError("removals must be a sequence of strings")
            document["removals"] = list(dict.fromkeys(document["removals"]))
        return await self._call(
            Endpoint.UPDATE_NAMESPACE_PROPERTIES,
            parsing.namespace_properties,
            namespace_path(namespace),
            body=document,
            **call,
        )
