"""Creates the monthly partitions of the audit trail ahead, and detaches or deletes expired entries."""

# ruff: noqa: S608  (own names)

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
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

_MAX_MOVED_ROWS = 10_000
"""Entries of a month that may leave the default partition while it is locked and sign-ins store entries there."""

logger = logging.getLogger(__name__)


class Partition(NamedTuple):
    name: str
    """As in SQL: quoted and with its schema where that is needed."""
    start: datetime
    end: datetime
    """The first time that no longer belongs to the partition."""


def first_of_month(at: datetime) -> datetime:
    """The first day of the month (UTC) of a time."""
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(at: datetime) -> datetime:
    """The first day of the month (UTC) after a time."""
    return first_of_month(first_of_month(at) + timedelta(days=32))


def maintain(*, at: datetime) -> None:
    """Make the partitions of this month and the next two, and detach those older than the retention.

    A failure is logged. Without a partition of its month, an entry goes to the default partition.
    """
    config = conf.current().audit
    # PostgreSQL scans the default partition before it attaches another, for longer than a job may wait.
    with response_timeout.unlimited(), _failures_logged():
        if config.retention:
            _detach_expired(before=at - config.retention)
        _make_ahead(at=at)
    if config.retention and config.drop_expired:
        with _failures_logged():
            _delete_expired(before=at - config.retention)


@contextlib.contextmanager
def _failures_logged() -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        logger.warning("audit partitions not maintained", extra={"error": str(error)})


@contextlib.contextmanager
def _change_of_tables(cursor: CursorWrapper) -> Iterator[None]:
    """A transaction that waits for locks only briefly, and may scan a table for longer than other statements may take.

    A failure is logged.
    """
    with _failures_logged(), transaction.atomic(durable=True):
        cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        cursor.execute("SET LOCAL statement_timeout = 0")
        yield


def read_partitions(cursor: CursorWrapper) -> list[Partition]:
    """The partitions but the default one, oldest first."""
    cursor.execute(
        r"""
        SELECT c.oid::regclass::text,
            substring(bound FROM 'FROM \(''([^'']+)''\)')::timestamptz,
            substring(bound FROM 'TO \(''([^'']+)''\)')::timestamptz
        FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid, pg_get_expr(c.relpartbound, c.oid) AS bound
        WHERE inhparent = to_regclass(%s) AND bound <> 'DEFAULT'
        """,
        [namespaced("audit_log_entries")],
    )
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    rows = [Partition(name, start or first, end or last) for name, start, end in cursor.fetchall()]
    return sorted(rows, key=lambda partition: partition.end)


def _missing_months(existing: list[Partition], *, since: datetime, until: datetime) -> list[datetime]:
    """The first days of the months from that of `since` to before `until` that no partition covers."""
    month, missing = first_of_month(since), []
    while month < until:
        end = next_month(month)
        if not any(partition.start < end and partition.end > month for partition in existing):
            missing.append(month)
        month = end
    return missing


def _table_of(month: datetime) -> str:
    return namespaced(f"audit_log_entries_{month:%Y_%m}")


def create_month(cursor: CursorWrapper, start: datetime) -> None:
    """Make the partition of the month that begins at `start`. Must run inside a transaction.

    Entries of the month leave the default partition, which is locked. Reads of it wait only while PostgreSQL scans it.
    """
    table, default = namespaced("audit_log_entries"), namespaced("audit_log_entries_default")
    name, end = _table_of(start), next_month(start)
    cursor.execute(f"LOCK TABLE {default} IN SHARE ROW EXCLUSIVE MODE")
    cursor.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING INDEXES)")
    cursor.execute(
        f"WITH moved AS (DELETE FROM {default} WHERE created_at >= %s AND created_at < %s RETURNING *)"
        f" INSERT INTO {name} SELECT * FROM moved",
        [start, end],
    )
    cursor.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}')"
    )


def _make_ahead(*, at: datetime) -> None:
    retention = conf.current().audit.retention
    with connection.cursor() as cursor:
        existing = read_partitions(cursor)
        since = min(at, existing[0].end) if existing else at
        if retention:
            since = max(since, at - retention)
        missing = _missing_months(existing, since=since, until=next_month(next_month(next_month(at))))
        # Without a partition of this month, sign-ins store their entries in the default partition.
        is_default_in_use = first_of_month(at) in missing
        for month in missing:
            if _has_table(cursor, month):
                continue
            if is_default_in_use and _has_many_rows(cursor, month):
                logger.warning("audit entries stay in the default partition", extra={"month": f"{month:%Y-%m}"})
                continue
            with _change_of_tables(cursor):
                create_month(cursor, month)


def _has_table(cursor: CursorWrapper, month: datetime) -> bool:
    """True for a month whose partition was detached and not dropped."""
    cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [_table_of(month)])
    ((exists,),) = cursor.fetchall()
    return bool(exists)


def _has_many_rows(cursor: CursorWrapper, month: datetime) -> bool:
    default = namespaced("audit_log_entries_default")
    cursor.execute(
        f"SELECT FROM {default} WHERE created_at >= %s AND created_at < %s OFFSET {_MAX_MOVED_ROWS} LIMIT 1",
        [month, next_month(month)],
    )
    return cursor.fetchone() is not None


def _detach_expired(*, before: datetime) -> None:
    table = namespaced("audit_log_entries")
    is_dropped = conf.current().audit.drop_expired
    with connection.cursor() as cursor:
        for partition in read_partitions(cursor):
            if partition.end > before:
                return
            is_detached = False
            with _change_of_tables(cursor):
                cursor.execute(f"ALTER TABLE {table} DETACH PARTITION {partition.name}")
                if is_dropped:
                    cursor.execute(f"DROP TABLE {partition.name}")
                is_detached = True
            if is_detached:
                message = "audit partition dropped" if is_dropped else "audit partition detached"
                logger.info(message, extra={"table": partition.name, "until": f"{partition.end:%Y-%m-%d}"})


def _delete_expired(*, before: datetime) -> None:
    """Delete expired entries of the default partition, in at most `_MAX_BATCHES` batches.

    An import stores such entries when the partitions of their months have been dropped.
    """
    default = namespaced("audit_log_entries_default")
    with connection.cursor() as cursor:
        for _ in range(_MAX_BATCHES):
            with transaction.atomic(durable=True):
                cursor.execute(
                    f"DELETE FROM {default} WHERE ctid = ANY(ARRAY("
                    f"SELECT ctid FROM {default} WHERE created_at < %s ORDER BY created_at LIMIT {_BATCH_SIZE}))",
                    [before],
                )
            if cursor.rowcount < _BATCH_SIZE:
                return
