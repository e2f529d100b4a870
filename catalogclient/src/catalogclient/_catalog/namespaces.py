"""The operations of RestCatalog on namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

from catalogclient import _pagination
from catalogclient._catalog.core import CallOptions, Core, MutationOptions
from catalogclient._identifiers import NamespaceIdentifier, NamespaceLike
from catalogclient._operations import namespaces
from catalogclient._results import NamespaceMetadata, NamespacePage, UpdateNamespacePropertiesResult
from catalogclient.errors import CatalogError
from catalogclient.types import UpdateNamespacePropertiesRequest


class NamespaceMethods(Core):
    """Namespaces."""

    def list_namespaces(
        self,
        *,
        parent: NamespaceLike | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        **call: Unpack[CallOptions],
    ) -> NamespacePage:
        """One page of the namespaces at the top, or below `parent`. Raises NoSuchNamespaceError for the parent."""
        return self._send(namespaces.list_(parent=parent, page_size=page_size, page_token=page_token), **call)

    def iter_namespaces(
        self,
        *,
        parent: NamespaceLike | None = None,
        page_size: int | None = None,
        recursive: bool = False,
        **call: Unpack[CallOptions],
    ) -> Iterator[NamespaceIdentifier]:
        """All namespaces at the top, or below `parent`, page by page as they are taken; `recursive` adds all below.

        A namespace that is dropped meanwhile is passed over. Raises as list_namespaces does, and InvalidResponseError
        for a server whose pages do not end.
        """

        def children(above: NamespaceLike | None) -> Iterator[NamespaceIdentifier]:
            return _pagination.items(
                lambda size, token: self.list_namespaces(parent=above, page_size=size, page_token=token, **call),
                page_size=page_size,
                default_size=lambda: self._route().page_size,
            )

        return _pagination.breadth_first(children, parent) if recursive else children(parent)

    def create_namespace(
        self,
        namespace: NamespaceLike,
        properties: Mapping[str, str] | None = None,
        **call: Unpack[MutationOptions],
    ) -> NamespaceMetadata:
        """Create a namespace. Raises AlreadyExistsError. Source: OpenAPI, `createNamespace`."""
        return self._send(namespaces.create(namespace, properties), **call)

    def create_namespace_if_not_exists(
        self,
        namespace: NamespaceLike,
        properties: Mapping[str, str] | None = None,
        **call: Unpack[MutationOptions],
    ) -> NamespaceMetadata | None:
        """Create a namespace; None when it was there, and then its properties are as they were."""
        try:
            return self.create_namespace(namespace, properties, **call)
        except CatalogError as error:
            if error.status != 409:
                raise
            return None

    def load_namespace_metadata(self, namespace: NamespaceLike, **call: Unpack[CallOptions]) -> NamespaceMetadata:
        """A namespace with its properties. Raises NoSuchNamespaceError."""
        return self._send(namespaces.load(namespace), **call)

    def namespace_exists(self, namespace: NamespaceLike, **call: Unpack[CallOptions]) -> bool:
        """Whether a namespace is there."""
        return self._exists(namespaces.exists(namespace), namespaces.load(namespace), **call)

    def drop_namespace(self, namespace: NamespaceLike, **call: Unpack[MutationOptions]) -> None:
        """Drop an empty namespace. Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        self._send(namespaces.drop(namespace), **call)

    def update_namespace_properties(
        self,
        namespace: NamespaceLike,
        request: UpdateNamespacePropertiesRequest | None = None,
        *,
        updates: Mapping[str, str] | None = None,
        removals: Iterable[str] | None = None,
        **call: Unpack[MutationOptions],
    ) -> UpdateNamespacePropertiesResult:
        """Set and remove properties, by a request or by the keywords.

        Raises NoSuchNamespaceError, and UnprocessableEntityError for a name that is both set and removed. Source:
        OpenAPI, `updateProperties`.
        """
        wanted = namespaces.update_properties(namespace, request, updates=updates, removals=removals)
        return self._send(wanted, **call)
