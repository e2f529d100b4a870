"""One process at a time, across every server that shares a database: a PostgreSQL advisory lock."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.utils import CursorWrapper

PAUSE = 0.1
"""Seconds between two attempts."""


@contextlib.contextmanager
def exclusive(purpose: str, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Hold the lock named `purpose` while the block runs; waits for as long as another process holds it.

    The lock belongs to a transaction on a connection of its own, so that it ends with the process, survives a pooler in
    transaction mode and whatever the block does to its own connection. It is asked for again and again instead of
    waited on, because a waiting statement keeps a snapshot that `CREATE INDEX CONCURRENTLY` in the block waits for.
    """
    key = int.from_bytes(hashlib.sha256(f"authsvc {purpose}".encode()).digest()[:8], signed=True)
    connection = connections.create_connection(using)
    try:
        connection.set_autocommit(autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            while not _taken(cursor, key):
                time.sleep(PAUSE)
        yield
    finally:
        connection.close()


def _taken(cursor: CursorWrapper, key: int) -> bool:
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s::bigint)", [key])
    row = cursor.fetchone()
    return bool(row and row[0])
