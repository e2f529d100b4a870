"""Access to storage: credentials of a table, and requests signed by the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalogclient import _encoding, _headers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import TableLike
from catalogclient._messages import Call, Reply
from catalogclient._operations import reading, tables
from catalogclient._results import RemoteSignResult, StorageCredential
from catalogclient._urls import QueryValue
from catalogclient.errors import InvalidResponseError
from catalogclient.types import RemoteSigningConfig, RemoteSignRequest


def credentials(
    table: TableLike, *, plan_id: str | None, referenced_by: Sequence[TableLike] | None
) -> Call[list[StorageCredential]]:
    query: list[tuple[str, QueryValue]] = []
    if plan_id is not None:
        query.append(("planId", plan_id))
    return Call(
        operation=OPERATIONS[Endpoint.LOAD_CREDENTIALS],
        values=tables.place(table),
        query=(*query, *tables.references(referenced_by)),
        read=lambda reply: reading.credentials(reading.document(reply)),
    )


def sign(
    table: TableLike, request: RemoteSignRequest, *, signing_config: RemoteSigningConfig | None
) -> Call[RemoteSignResult]:
    document: dict[str, Any] = {**request}
    wanted = signing_config or {}
    added = wanted.get("properties")
    if added:
        document["properties"] = {**document.get("properties", {}), **added}
    sent = {name: ", ".join(values) for name, values in (wanted.get("headers") or {}).items()}
    _headers.check(sent)
    return Call(
        operation=OPERATIONS[Endpoint.SIGN_REQUEST],
        values=tables.place(table),
        body=_encoding.body(document),
        headers=sent,
        read=_signed,
    )


def _signed(reply: Reply) -> RemoteSignResult:
    body = reading.document(reply)
    found = reading.mapping(body, "headers")
    if not all(isinstance(values, list) for values in found.values()):
        raise InvalidResponseError("headers in the answer are no lists", status=reply.status)
    return RemoteSignResult(
        uri=reading.text(body, "uri"),
        headers=found,
        cacheable="private" in reply.headers.get("Cache-Control", "").lower(),
    )
