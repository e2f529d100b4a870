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
    waited on, each time in a transaction of its own: `CREATE INDEX CONCURRENTLY` in the block waits for the end of
    every transaction that has a snapshot.
    """
    connection = connections.create_connection(using)
    try:
        connection.set_autocommit(autocommit=False)
        with connection.cursor() as cursor:
            while not _taken(cursor, purpose):
                connection.rollback()
                time.sleep(PAUSE)
        yield
    finally:
        connection.close()


@contextlib.contextmanager
def if_free(purpose: str, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[bool]:
    """As `exclusive`, without waiting: False, and no lock, when another process holds it."""
    connection = connections.create_connection(using)
    try:
        connection.set_autocommit(autocommit=False)
        with connection.cursor() as cursor:
            is_taken = _taken(cursor, purpose)
        if not is_taken:
            connection.close()
        yield is_taken
    finally:
        connection.close()


def _taken(cursor: CursorWrapper, purpose: str) -> bool:
    key = int.from_bytes(hashlib.sha256(f"authsvc {purpose}".encode()).digest()[:8], signed=True)
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s::bigint)", [key])
    row = cursor.fetchone()
    if not (row and row[0]):
        return False
    # After the question, whose portal would stay open with its snapshot: this takes its place and has none.
    cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    return True
