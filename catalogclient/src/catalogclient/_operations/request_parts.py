"""Converts arguments of operations to parts of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalogclient import _identifiers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier, TableLike
from catalogclient._messages import Call, encode_json
from catalogclient._operations import parsing
from catalogclient._options import positive_int
from catalogclient._urls import PathValue, QueryValue, References
from catalogclient.errors import InvalidArgumentError


def namespace_path(namespace: NamespaceLike) -> dict[str, PathValue]:
    """Return the path values of a namespace."""
    return {"namespace": _identifiers.namespace(namespace).namespace}


def object_path(identifier: TableLike, kind: str = "table", **more: str) -> dict[str, PathValue]:
    """Return the path values of a table, view or function. `kind` is the name of the placeholder."""
    object_identifier = _identifiers.table(identifier)
    return {"namespace": object_identifier.namespace, kind: object_identifier.name, **more}


def page_parameters(page_size: int | None, page_token: str | None) -> tuple[tuple[str, QueryValue], ...]:
    """Return `pageToken` and `pageSize`, each only if given."""
    parameters: list[tuple[str, QueryValue]] = []
    if page_token is not None:
        parameters.append(("pageToken", page_token))
    if page_size is not None:
        positive_int(page_size, "page_size")
        parameters.append(("pageSize", page_size))
    return tuple(parameters)


def references(referenced_by: Sequence[TableLike] | None) -> tuple[tuple[str, QueryValue], ...]:
    """Return the parameter `referenced-by`, if there are views."""
    if not referenced_by:
        return ()
    if isinstance(referenced_by, str):
        raise InvalidArgumentError("referenced_by must be a sequence of identifiers")
    return (("referenced-by", References(tuple(_identifiers.table(view) for view in referenced_by))),)


def require_name(request: Any) -> Any:
    """Return a request to create an object. Raises InvalidArgumentError unless it has a valid name."""
    if not isinstance(request, Mapping):
        raise InvalidArgumentError("the request must be a mapping")
    _identifiers.check_name(request.get("name"))
    return request


def rename(source: Any, destination: TableLike | None, endpoint: Endpoint) -> Call[None]:
    """Build a rename from two identifiers, or from a whole request as `source`."""
    if destination is None:
        if not isinstance(source, Mapping) or not {"source", "destination"} <= set(source):
            raise InvalidArgumentError("a rename request needs source and destination")
        return rename(source["source"], source["destination"], endpoint)
    return Call(
        operation=OPERATIONS[endpoint],
        body=encode_json(
            {"source": _identifiers.table(source).to_dict(), "destination": _identifiers.table(destination).to_dict()}
        ),
        read=parsing.ignore_body,
    )


def with_plain_identifier(request: Any) -> dict[str, Any]:
    """Return a copy of a commit whose `identifier`, if any, is converted to a plain document."""
    if not isinstance(request, Mapping):
        raise InvalidArgumentError("a commit must be a mapping with requirements and updates")
    document = dict(request)
    identifier = document.get("identifier")
    if isinstance(identifier, TableIdentifier | Mapping):
        document["identifier"] = _identifiers.table(identifier).to_dict()
    elif "identifier" in document:
        raise InvalidArgumentError("identifier must be a mapping or a TableIdentifier")
    return document
