"""Namespaces: list, create, load, exists, drop, properties (OpenAPI, `/v1/{prefix}/namespaces`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catalogclient import _encoding, _identifiers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceIdentifier, NamespaceLike
from catalogclient._messages import Call, Reply
from catalogclient._operations import paging, reading
from catalogclient._results import NamespaceMetadata, NamespacePage, UpdateNamespacePropertiesResult
from catalogclient._urls import Levels
from catalogclient.errors import InvalidArgumentError
from catalogclient.types import UpdateNamespacePropertiesRequest


def list_(*, parent: NamespaceLike | None, page_size: int | None, page_token: str | None) -> Call[NamespacePage]:
    above = _identifiers.parent(parent)
    return Call(
        operation=OPERATIONS[Endpoint.LIST_NAMESPACES],
        query=(
            *((("parent", Levels(above.namespace)),) if above else ()),
            *paging.parameters(page_size=page_size, page_token=page_token),
        ),
        read=_page,
    )


def create(namespace: NamespaceLike, properties: Mapping[str, str] | None) -> Call[NamespaceMetadata]:
    levels = _identifiers.namespace(namespace).namespace
    document: dict[str, Any] = {"namespace": list(levels)}
    if properties is not None:
        document["properties"] = dict(properties)

    def read(reply: Reply) -> NamespaceMetadata:
        # Some servers confirm without saying what they made.
        return _metadata(reading.document(reply) if reading.looks_like_json(reply) else dict(document), levels)

    return Call(operation=OPERATIONS[Endpoint.CREATE_NAMESPACE], body=_encoding.body(document), read=read)


def load(namespace: NamespaceLike) -> Call[NamespaceMetadata]:
    levels = _identifiers.namespace(namespace).namespace
    return Call(
        operation=OPERATIONS[Endpoint.LOAD_NAMESPACE_METADATA],
        values={"namespace": levels},
        read=lambda reply: _metadata(reading.document(reply), levels),
    )


def exists(namespace: NamespaceLike) -> Call[None]:
    return Call(
        operation=OPERATIONS[Endpoint.NAMESPACE_EXISTS],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        read=reading.nothing,
    )


def drop(namespace: NamespaceLike) -> Call[None]:
    return Call(
        operation=OPERATIONS[Endpoint.DROP_NAMESPACE],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        read=reading.nothing,
    )


def update_properties(
    namespace: NamespaceLike,
    request: UpdateNamespacePropertiesRequest | None,
    *,
    updates: Mapping[str, str] | None,
    removals: Iterable[str] | None,
) -> Call[UpdateNamespacePropertiesResult]:
    if request is not None and (updates is not None or removals is not None):
        raise InvalidArgumentError("give the request or updates and removals, not both")
    document: dict[str, Any] = dict(request or {})
    if removals is not None:
        document["removals"] = removals
    if updates is not None:
        document["updates"] = dict(updates)
    if document.get("removals") is not None:
        if isinstance(document["removals"], str):
            raise InvalidArgumentError("removals are a sequence of texts")
        document["removals"] = list(dict.fromkeys(document["removals"]))
    return Call(
        operation=OPERATIONS[Endpoint.UPDATE_NAMESPACE_PROPERTIES],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        body=_encoding.body(document),
        read=_changes,
    )


def _page(reply: Reply) -> NamespacePage:
    body = reading.document(reply)
    found = [NamespaceIdentifier(reading.levels(each)) for each in reading.items(body, "namespaces")]
    return NamespacePage(found, reading.token(body))


def _metadata(body: dict[str, Any], asked: tuple[str, ...]) -> NamespaceMetadata:
    levels = reading.levels(body["namespace"]) if body.get("namespace") is not None else asked
    properties = body.get("properties")
    return NamespaceMetadata(
        raw=body,
        namespace=NamespaceIdentifier(levels),
        properties={} if properties is None else reading.mapping(body, "properties"),
        properties_supported=not ("properties" in body and properties is None),
    )


def _changes(reply: Reply) -> UpdateNamespacePropertiesResult:
    body = reading.document(reply)
    return UpdateNamespacePropertiesResult(
        raw=body,
        updated=reading.texts(body, "updated"),
        removed=reading.texts(body, "removed"),
        missing=reading.texts(body, "missing"),
    )
