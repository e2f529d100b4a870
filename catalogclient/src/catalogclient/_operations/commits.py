"""Commits of one table and of several at once (OpenAPI, `updateTable` and `commitTransaction`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalogclient import _encoding, _identifiers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import TableIdentifier, TableLike
from catalogclient._messages import Call, Reply
from catalogclient._operations import reading, tables
from catalogclient._results import CommitTableResult
from catalogclient.errors import InvalidArgumentError, InvalidResponseError
from catalogclient.types import CommitTableRequest, TableRequirement, TableUpdate


def one(
    table: TableLike,
    request: CommitTableRequest | None,
    *,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
) -> Call[CommitTableResult]:
    if request is not None and (requirements or updates):
        raise InvalidArgumentError("give the request or requirements and updates, not both")
    return Call(
        operation=OPERATIONS[Endpoint.UPDATE_TABLE],
        values=tables.place(table),
        body=_encoding.body(_change(request or {"requirements": [*requirements], "updates": [*updates]})),
        read=_committed,
    )


def several(table_changes: Sequence[CommitTableRequest]) -> Call[None]:
    if not table_changes:
        raise InvalidArgumentError("a transaction needs at least one change")
    changes = [_change(each) for each in table_changes]
    if not all("identifier" in each for each in changes):
        raise InvalidArgumentError("every change of a transaction needs the identifier of its table")
    return Call(
        operation=OPERATIONS[Endpoint.COMMIT_TRANSACTION],
        body=_encoding.body({"table-changes": changes}),
        read=reading.nothing,
    )


def _change(request: CommitTableRequest) -> dict[str, Any]:
    if not isinstance(request, Mapping):
        raise InvalidArgumentError("a commit is a mapping with requirements and updates")
    if "properties" in request and "updates" not in request and "requirements" not in request:
        raise InvalidArgumentError(
            "a commit takes requirements and updates; for properties use updates=[updates.set_properties({...})]"
        )
    document: dict[str, Any] = {"requirements": [], "updates": [], **request}
    identifier = document.get("identifier")
    if isinstance(identifier, TableIdentifier | Mapping):
        document["identifier"] = _identifiers.table(identifier).to_dict()
    elif "identifier" in document:
        raise InvalidArgumentError("identifier must be a mapping or a TableIdentifier")
    return document


def _committed(reply: Reply) -> CommitTableResult:
    body = reading.document(reply)
    location = reading.optional_text(body, "metadata-location")
    if not location:
        raise InvalidResponseError(
            f"Server returned {reply.status} without required `metadata-location` field on CommitTableResponse",
            status=reply.status,
        )
    return CommitTableResult(
        raw=body, metadata=tables.metadata(body), metadata_location=location, etag=reading.etag(reply)
    )
