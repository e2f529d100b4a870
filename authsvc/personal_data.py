"""Personal data: the contract by which every app exports and erases its rows about a user."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import orjson
from django.db.models import QuerySet

from authsvc.security import crypto

_KEY_LABEL = "personal_data.pseudonym"
_BATCH_SIZE = 500

Row = Mapping[str, Any]
"""Column → value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSubject:
    """A user by id, with the email addresses and phone numbers that appear in rows without an id.

    `addresses` is empty if the user's row is already deleted.
    """

    id: UUID
    addresses: frozenset[str] = field(default=frozenset(), repr=False)


class PersonalDataSource(Protocol):
    """Exports and erases the personal data of one app."""

    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        """Yield each table's name without namespace and its rows about the user, read lazily.

        Rows contain no hash, key, code or token, so they cannot be used to act as the user.
        """

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        """Delete rows that outlive the deletion of the user's row, except the audit trail; table → deleted rows.

        Joins the caller's transaction.
        """


sources: list[PersonalDataSource] = []
"""The sources of all installed apps; `AppConfig.ready()` adds that of an app."""


def pseudonym(user_id: UUID) -> UUID:
    """The constant id that replaces an erased user. It can be computed only with the service's secret."""
    digest = hmac.digest(crypto.derive_key(_KEY_LABEL), user_id.bytes, hashlib.sha256)
    return UUID(bytes=digest[:16], version=5)


def export_rows(rows: QuerySet[Any], *, without: Collection[str] = ()) -> Iterator[Row]:
    """Rows as column → value, read in batches, without the secret columns `without`."""
    columns = [field.attname for field in rows.model._meta.concrete_fields if field.attname not in without]
    return rows.values(*columns).iterator(chunk_size=_BATCH_SIZE)


def export_tables(data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
    """Table → rows of all installed apps, read lazily."""
    return (table for source in sources for table in source.export(data_subject))


def render_document(
    data_subject: DataSubject,
    tables: Iterable[tuple[str, Iterable[Row]]],
    *,
    exported_at: str,
    on_row: Callable[[], object] = lambda: None,
) -> Iterator[str]:
    """The export as one JSON document, row by row, because the audit trail may be long.

    `exported_at` is a time in the format of RFC 3339.
    """
    yield f'{{"user_id":"{data_subject.id}","exported_at":"{exported_at}","held":{{'
    for number, (table, rows) in enumerate(tables):
        yield f'{"," if number else ""}\n"{table}":['
        for count, row in enumerate(rows):
            yield ("," if count else "") + "\n" + _encode(row)
            on_row()
        yield "]"
    yield "\n}}\n"


def _encode(row: Row) -> str:
    try:
        return orjson.dumps(row).decode()
    except orjson.JSONEncodeError:
        # Numbers beyond 64 bits, lone surrogates.
        return json.dumps(row, default=str)
