"""The parameters of lists, and pages of identifiers."""

from __future__ import annotations

from typing import Any, TypeVar

from catalogclient import _identifiers
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import NamespaceLike, TableIdentifier
from catalogclient._messages import Call, Reply
from catalogclient._operations import reading
from catalogclient._results import TablePage, ViewPage
from catalogclient.errors import InvalidArgumentError

P = TypeVar("P", TablePage, ViewPage)


def parameters(*, page_size: int | None, page_token: str | None) -> tuple[tuple[str, str | int], ...]:
    """`pageToken` and `pageSize`, each only if given. Raises InvalidArgumentError for a size that is none."""
    found: list[tuple[str, str | int]] = []
    if page_token is not None:
        found.append(("pageToken", page_token))
    if page_size is not None:
        found.append(("pageSize", checked_size(page_size)))
    return tuple(found)


def checked_size(size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidArgumentError("page_size must be a whole number above 0")
    return size


def identifiers_in(
    namespace: NamespaceLike, *, endpoint: Endpoint, kind: type[P], page_size: int | None, page_token: str | None
) -> Call[P]:
    """A page of the tables or views of a namespace."""

    def read(reply: Reply) -> P:
        body = reading.document(reply)
        return kind([_identifier(each) for each in reading.objects(body, "identifiers")], reading.token(body))

    return Call(
        operation=OPERATIONS[endpoint],
        values={"namespace": _identifiers.namespace(namespace).namespace},
        query=parameters(page_size=page_size, page_token=page_token),
        read=read,
    )


def _identifier(found: dict[str, Any]) -> TableIdentifier:
    return TableIdentifier(reading.levels(found.get("namespace")), reading.text(found, "name"))
