"""Tables: list, create, load, exists, register, unregister, rename, drop (OpenAPI, `.../tables`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalogclient import _encoding, _identifiers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableLike
from catalogclient._messages import Call, RawResponse, Reply, Unset
from catalogclient._operations import paging, reading
from catalogclient._results import LoadTableResult, TablePage, UnregisterTableResult
from catalogclient._urls import PathValue, QueryValue, References
from catalogclient.errors import InvalidArgumentError
from catalogclient.types import CreateTableRequest, RegisterTableRequest, TableMetadata

Delegation = Sequence[str] | None | Unset


def list_(namespace: NamespaceLike, *, page_size: int | None, page_token: str | None) -> Call[TablePage]:
    return paging.identifiers_in(
        namespace, endpoint=Endpoint.LIST_TABLES, kind=TablePage, page_size=page_size, page_token=page_token
    )


def create(
    namespace: NamespaceLike, request: CreateTableRequest, *, access_delegation: Delegation
) -> Call[LoadTableResult]:
    check_name(request)
    return Call(
        operation=OPERATIONS[Endpoint.CREATE_TABLE],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        # Nessie takes a request without this key for one that it cannot read.
        body=_encoding.body({"stage-create": False, **request}),
        access_delegation=access_delegation,
        read=_loaded,
    )


def register(namespace: NamespaceLike, request: RegisterTableRequest) -> Call[LoadTableResult]:
    check_name(request)
    return Call(
        operation=OPERATIONS[Endpoint.REGISTER_TABLE],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        body=_encoding.body(request),
        read=_loaded,
    )


def load(
    table: TableLike,
    *,
    if_none_match: str | None,
    snapshots: str | None,
    referenced_by: Sequence[TableLike] | None,
    access_delegation: Delegation,
) -> Call[LoadTableResult | None]:
    """None is read from an answer that says that nothing has changed."""

    def read(reply: Reply) -> LoadTableResult | None:
        return None if reply.status == 304 else _loaded(reply)

    return _load(table, if_none_match, snapshots, referenced_by, access_delegation, read)


def load_raw(
    table: TableLike,
    *,
    if_none_match: str | None,
    snapshots: str | None,
    referenced_by: Sequence[TableLike] | None,
    access_delegation: Delegation,
) -> Call[RawResponse | None]:
    """The same, the answer left as it is."""

    def read(reply: Reply) -> RawResponse | None:
        return None if reply.status == 304 else RawResponse(reply.status, reply.headers, reply.content)

    return _load(table, if_none_match, snapshots, referenced_by, access_delegation, read)


def _load(
    table: TableLike,
    if_none_match: str | None,
    snapshots: str | None,
    referenced_by: Sequence[TableLike] | None,
    access_delegation: Delegation,
    read: Any,
) -> Call[Any]:
    if snapshots not in (None, "all", "refs"):
        raise InvalidArgumentError("snapshots must be 'all' or 'refs'")
    query: list[tuple[str, QueryValue]] = []
    if snapshots is not None:
        query.append(("snapshots", snapshots))
    return Call(
        operation=OPERATIONS[Endpoint.LOAD_TABLE],
        values=place(table),
        query=(*query, *references(referenced_by)),
        headers={"If-None-Match": if_none_match} if if_none_match else {},
        access_delegation=access_delegation,
        read=read,
    )


def load_refs(table: TableLike) -> Call[LoadTableResult | None]:
    """The smallest load there is."""
    return load(table, if_none_match=None, snapshots="refs", referenced_by=None, access_delegation=None)


def exists(table: TableLike) -> Call[None]:
    return Call(operation=OPERATIONS[Endpoint.TABLE_EXISTS], values=place(table), read=reading.nothing)


def drop(table: TableLike, *, purge: bool) -> Call[None]:
    return Call(
        operation=OPERATIONS[Endpoint.DROP_TABLE],
        values=place(table),
        query=(("purgeRequested", purge),),
        read=reading.nothing,
    )


def unregister(table: TableLike) -> Call[UnregisterTableResult]:
    def read(reply: Reply) -> UnregisterTableResult:
        body = reading.document(reply)
        return UnregisterTableResult(
            raw=body, metadata=metadata(body), metadata_location=reading.text(body, "metadata-location")
        )

    return Call(operation=OPERATIONS[Endpoint.UNREGISTER_TABLE], values=place(table), read=read)


def rename(source: Any, destination: TableLike | None, *, endpoint: Endpoint = Endpoint.RENAME_TABLE) -> Call[None]:
    """`source` is the whole request when there is no `destination`."""
    if destination is None:
        if not isinstance(source, Mapping) or not {"source", "destination"} <= set(source):
            raise InvalidArgumentError("a request to rename needs source and destination")
        return rename(source["source"], source["destination"], endpoint=endpoint)
    document = {
        "source": _identifiers.table(source).to_dict(),
        "destination": _identifiers.table(destination).to_dict(),
    }
    return Call(operation=OPERATIONS[endpoint], body=_encoding.body(document), read=reading.nothing)


def check_name(request: object) -> None:
    """Raises InvalidArgumentError for a request that does not name what is to be made."""
    if not isinstance(request, Mapping):
        raise InvalidArgumentError("the request is a mapping")
    _identifiers.name(request.get("name"))


def place(table: TableLike) -> dict[str, PathValue]:
    """What a table puts into a path."""
    found = _identifiers.table(table)
    return {"namespace": found.namespace, "table": found.name}


def references(referenced_by: Sequence[TableLike] | None) -> tuple[tuple[str, QueryValue], ...]:
    """The parameter that names the views through which something is read."""
    if not referenced_by:
        return ()
    if isinstance(referenced_by, str):
        raise InvalidArgumentError("referenced_by is a sequence of identifiers")
    return (("referenced-by", References(tuple(_identifiers.table(each) for each in referenced_by))),)


def metadata(body: Mapping[str, Any]) -> TableMetadata:
    found: Any = reading.mapping(body, "metadata")
    return found  # type: ignore[no-any-return]


def _loaded(reply: Reply) -> LoadTableResult:
    body = reading.document(reply)
    return LoadTableResult(
        raw=body,
        metadata=metadata(body),
        metadata_location=reading.optional_text(body, "metadata-location"),
        config=reading.secrets(body, "config"),
        storage_credentials=reading.credentials(body),
        remote_signing_config=reading.optional_object(body, "remote-signing-config"),
        etag=reading.etag(reply),
    )
