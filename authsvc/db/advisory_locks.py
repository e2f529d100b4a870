"""PostgreSQL advisory locks: one process at a time, across all servers that share a database."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import time
from collections.abc import Iterator

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.utils import CursorWrapper

RETRY_SECONDS = 0.1
"""Pause between two attempts to get a lock."""
_WARN_AFTER_SECONDS = 10.0

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def hold_lock(purpose: str, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Hold the lock named `purpose` while the block runs; waits as long as another process holds it.

    The lock belongs to a transaction on a separate connection. So it ends with the process, works through a pooler in
    transaction mode, and is independent of the block's own connection. Each attempt is a transaction of its own instead
    of one that waits: `CREATE INDEX CONCURRENTLY` in the block waits for every transaction that has a snapshot.
    """
    connection = connections.create_connection(using)
    try:
        connection.set_autocommit(autocommit=False)
        with connection.cursor() as cursor:
            warn_at = time.monotonic() + _WARN_AFTER_SECONDS
            while not _acquire(cursor, purpose):
                connection.rollback()
                if time.monotonic() > warn_at:
                    # Its process may be frozen: `pg_locks` and `pg_stat_activity` show which host it is on.
                    logger.warning("another process holds a lock", extra={"lock": purpose})
                    warn_at = math.inf
                time.sleep(RETRY_SECONDS)
        yield
    finally:
        connection.close()


@contextlib.contextmanager
def try_lock(purpose: str) -> Iterator[bool]:
    """As `hold_lock`, without waiting: yields False, and holds no lock, when another process holds it."""
    connection = connections.create_connection(DEFAULT_DB_ALIAS)
    try:
        connection.set_autocommit(autocommit=False)
        with connection.cursor() as cursor:
            is_held = _acquire(cursor, purpose)
        if not is_held:
            connection.close()
        yield is_held
    finally:
        connection.close()


def _acquire(cursor: CursorWrapper, purpose: str) -> bool:
    key = int.from_bytes(hashlib.sha256(f"authsvc {purpose}".encode()).digest()[:8], signed=True)
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s::bigint)", [key])
    row = cursor.fetchone()
    if not (row and row[0]):
        return False
    # Also closes the portal of the query, which would keep its snapshot open.
    cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    return True
