"""Reads times that PostgreSQL can store and Python cannot: `infinity`, years after 9999 and before 1.

psycopg raises an error for them, which would break every list that contains such a row. They are read as the first or
last day that Python has; a day is left so that they can be shown in any time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from psycopg import Connection, DataError
from psycopg.adapt import Buffer, Transformer
from psycopg.pq.abc import PGresult
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader

_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)


class TimestampLoader(TimestamptzLoader):
    """Reads the text form, in UTC."""

    timezone = UTC
    """Django compares it with the time zone of its connection."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data).replace(tzinfo=UTC)
        except DataError:
            text = bytes(data)
            return _EARLIEST if text.startswith(b"-") or text.endswith(b"BC") else _LATEST


class _BinaryTimestampLoader(TimestamptzBinaryLoader):
    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except DataError:
            return _EARLIEST if int.from_bytes(bytes(data), signed=True) < 0 else _LATEST


def read_rows(result: PGresult, connection: Connection[Any]) -> list[tuple[Any, ...]]:
    """The rows of a binary result that psycopg's own loader, which is faster, could not read."""
    with connection.cursor(binary=True) as cursor:
        cursor.adapters.register_loader("timestamptz", _BinaryTimestampLoader)
        reader = Transformer(cursor)
        reader.set_pgresult(result)
        return reader.load_rows(0, result.ntuples, tuple)
