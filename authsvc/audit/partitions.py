"""Creates the monthly partitions of the audit trail ahead, and detaches or deletes expired entries."""

# ruff: noqa: S608  (own names)

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper

from authsvc import conf
from authsvc.db.postgresql import response_timeout
from authsvc.db.sql import namespaced

_BATCH_SIZE, _MAX_BATCHES = 10_000, 100
_LOCK_TIMEOUT = "200ms"
"""Longest wait for a table lock, because requests that store entries queue behind it. The next run tries again."""

logger = logging.getLogger(__name__)


class Partition(NamedTuple):
    name: str
    end: datetime
    """The first time that no longer belongs to the partition."""


def next_month(at: datetime) -> datetime:
    """The first day of the month (UTC) after a time."""
    first = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)


def maintain(*, at: datetime) -> None:
    """Make the partitions of this month and the next two, and detach those older than the retention.

    A failure is logged. Without a partition of its month, an entry goes to the default partition.
    """
    config = conf.current().audit
    try:
        if config.retention and config.drop_expired:
            _delete_expired(before=at - config.retention)
        # PostgreSQL scans the default partition before it attaches another, for longer than a job may wait.
        with response_timeout.unlimited():
            _make_ahead(until=next_month(next_month(next_month(at))))
            if config.retention:
                _detach_expired(before=at - config.retention)
    except DatabaseError as error:
        logger.warning("audit partitions not maintained", extra={"error": str(error)})


def read_partitions(cursor: CursorWrapper) -> list[Partition]:
    """The partitions with an end, oldest first."""
    cursor.execute(
        r"""
        SELECT c.relname, substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz AS until
        FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
        WHERE inhparent = to_regclass(%s) AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT' ORDER BY until
        """,
        [namespaced("audit_log_entries")],
    )
    return [Partition(*row) for row in cursor.fetchall()]


def create_months(cursor: CursorWrapper, *, until: datetime) -> None:
    """Make a partition for each month from the end of the last one. Must run inside a transaction.

    Entries of these months leave the default partition, which is locked.
    """
    table, default = namespaced("audit_log_entries"), namespaced("audit_log_entries_default")
    cursor.execute(f"LOCK TABLE {default}")
    start = read_partitions(cursor)[-1].end
    while start < until:
        name, end = namespaced(f"audit_log_entries_{start.astimezone(UTC):%Y_%m}"), next_month(start)
        cursor.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING INDEXES)")
        cursor.execute(
            f"WITH moved AS (DELETE FROM {default} WHERE created_at >= %s AND created_at < %s RETURNING *)"
            f" INSERT INTO {name} SELECT * FROM moved",
            [start, end],
        )
        cursor.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {name}"
            f" FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}')"
        )
        start = end


def _make_ahead(*, until: datetime) -> None:
    with connection.cursor() as cursor:
        if read_partitions(cursor)[-1].end >= until:
            return
        with transaction.atomic(durable=True):
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            create_months(cursor, until=until)


def _detach_expired(*, before: datetime) -> None:
    table = namespaced("audit_log_entries")
    is_dropped = conf.current().audit.drop_expired
    with connection.cursor() as cursor:
        for partition in read_partitions(cursor):
            if partition.end > before:
                return
            with transaction.atomic(durable=True):
                cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                cursor.execute(f"ALTER TABLE {table} DETACH PARTITION {partition.name}")
                if is_dropped:
                    cursor.execute(f"DROP TABLE {partition.name}")
            message = "audit partition dropped" if is_dropped else "audit partition detached"
            logger.info(message, extra={"table": partition.name, "until": f"{partition.end:%Y-%m-%d}"})


def _delete_expired(*, before: datetime) -> None:
    """Delete expired entries of the default partition, in at most `_MAX_BATCHES` batches.

    An import stores such entries when the partitions of their months have been dropped.
    """
    default = namespaced("audit_log_entries_default")
    with connection.cursor() as cursor:
        for _ in range(_MAX_BATCHES):
            cursor.execute(
                f"DELETE FROM {default} WHERE ctid = ANY(ARRAY("
                f"SELECT ctid FROM {default} WHERE created_at < %s ORDER BY created_at LIMIT {_BATCH_SIZE}))",
                [before],
            )
            if cursor.rowcount < _BATCH_SIZE:
                return
