"""Views: list, create, load, exists, replace, rename, register, drop (OpenAPI, `.../views`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalogclient import _encoding, _identifiers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._messages import Call, Reply
from catalogclient._operations import paging, reading, tables
from catalogclient._results import LoadViewResult, ViewPage
from catalogclient._urls import PathValue
from catalogclient.types import CommitViewRequest, CreateViewRequest, RegisterViewRequest


def list_(namespace: NamespaceLike, *, page_size: int | None, page_token: str | None) -> Call[ViewPage]:
    return paging.identifiers_in(
        namespace, endpoint=Endpoint.LIST_VIEWS, kind=ViewPage, page_size=page_size, page_token=page_token
    )


def create(namespace: NamespaceLike, request: CreateViewRequest) -> Call[LoadViewResult]:
    return _make(Endpoint.CREATE_VIEW, namespace, request)


def register(namespace: NamespaceLike, request: RegisterViewRequest) -> Call[LoadViewResult]:
    return _make(Endpoint.REGISTER_VIEW, namespace, request)


def load(view: TableLike, *, referenced_by: Sequence[TableLike] | None) -> Call[LoadViewResult]:
    return Call(
        operation=OPERATIONS[Endpoint.LOAD_VIEW],
        values=_place(view),
        query=tables.references(referenced_by),
        read=_loaded,
    )


def replace(view: TableLike, request: CommitViewRequest) -> Call[LoadViewResult]:
    document: dict[str, Any] = {**request}
    if isinstance(document.get("identifier"), TableIdentifier):
        document["identifier"] = document["identifier"].to_dict()
    return Call(
        operation=OPERATIONS[Endpoint.REPLACE_VIEW],
        values=_place(view),
        body=_encoding.body(document),
        read=_loaded,
    )


def exists(view: TableLike) -> Call[None]:
    return Call(operation=OPERATIONS[Endpoint.VIEW_EXISTS], values=_place(view), read=reading.nothing)


def drop(view: TableLike) -> Call[None]:
    return Call(operation=OPERATIONS[Endpoint.DROP_VIEW], values=_place(view), read=reading.nothing)


def _make(
    endpoint: Endpoint, namespace: NamespaceLike, request: CreateViewRequest | RegisterViewRequest
) -> Call[LoadViewResult]:
    tables.check_name(request)
    return Call(
        operation=OPERATIONS[endpoint],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        body=_encoding.body(request),
        read=_loaded,
    )


def _place(view: TableLike) -> dict[str, PathValue]:
    found = _identifiers.table(view)
    return {"namespace": found.namespace, "view": found.name}


def _loaded(reply: Reply) -> LoadViewResult:
    body = reading.document(reply)
    metadata: Any = reading.mapping(body, "metadata")
    return LoadViewResult(
        raw=body,
        metadata=metadata,
        metadata_location=reading.optional_text(body, "metadata-location"),
        config=reading.secrets(body, "config"),
    )
