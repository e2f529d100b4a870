"""User-defined functions: list and load (OpenAPI, `.../functions`)."""

from __future__ import annotations

from typing import Any

from catalogclient import _identifiers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableLike
from catalogclient._messages import Call, Reply
from catalogclient._operations import paging, reading
from catalogclient._results import FunctionPage, LoadFunctionResult


def list_(namespace: NamespaceLike, *, page_size: int | None, page_token: str | None) -> Call[FunctionPage]:
    return Call(
        operation=OPERATIONS[Endpoint.LIST_FUNCTIONS],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        query=paging.parameters(page_size=page_size, page_token=page_token),
        read=_page,
    )


def load(function: TableLike) -> Call[LoadFunctionResult]:
    found = _identifiers.table(function)
    return Call(
        operation=OPERATIONS[Endpoint.LOAD_FUNCTION],
        values={"namespace": found.namespace, "function": found.name},
        read=_loaded,
    )


def _page(reply: Reply) -> FunctionPage:
    body = reading.document(reply)
    return FunctionPage([reading.levels(each) for each in reading.items(body, "identifiers")], reading.token(body))


def _loaded(reply: Reply) -> LoadFunctionResult:
    body = reading.document(reply)
    metadata: Any = reading.mapping(body, "metadata")
    return LoadFunctionResult(
        raw=body, metadata=metadata, metadata_location=reading.optional_text(body, "metadata-location")
    )
