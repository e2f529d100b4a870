"""Counts events against limits that all processes share, in one table and one statement for each event.

Every counter is a token bucket: `tokens` are left of a capacity, refilled with time, and the bucket is new again once
its life, counted from its creation, is over. A fixed window is a bucket without refill; "once per interval" is such a
bucket of one. Counting happens outside the caller's transaction, so that no shared row stays locked.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from typing import Any

from django.db import connection

from authsvc import conf
from authsvc.db.sql import namespaced

_WINDOW = timedelta(hours=1)
_UNENDING = timedelta(days=36_500)
# The one key of a counter for the whole installation; client keys and addresses are never empty.
_EVERYBODY = ""
_KEPT = timedelta(hours=24)
_LONGEST_KEY = 255
_SWEPT_AT_ONCE = 10_000

_OLD = "r.created_at + %(life)s < clock_timestamp()"
_LEVEL = f"""CASE WHEN {_OLD} THEN %(burst)s ELSE LEAST(%(burst)s,
    r.tokens + %(rate)s * EXTRACT(epoch FROM clock_timestamp() - r.updated_at)) END"""


def consume(*, bucket: str, key: str, burst: float, per_second: float, life: timedelta) -> float | None:
    """Take one token from the bucket `bucket` of `key`: capacity `burst`, refilled by `per_second`.

    None when taken; else nothing is consumed, and the answer is the seconds until a token is there.
    """
    if burst < 1:  # a first event is inserted without asking for the level
        return life.total_seconds()
    statements = _statements(namespaced("rate_limits"))
    values: dict[str, Any] = {
        "bucket": bucket,
        "key": _fitting(key),
        "burst": float(burst),
        "rate": float(per_second),
        "life": life,
    }
    with connection.cursor() as cursor:
        cursor.execute(statements.consume, values)
        if cursor.fetchone() is not None:
            return None
        cursor.execute(statements.wait, values)
        row = cursor.fetchone()
    return float(row[0]) if row else 0.0


def refund(*, bucket: str, key: str) -> None:
    """Put the token of one `consume` back, for an event that turned out not to count."""
    with connection.cursor() as cursor:
        cursor.execute(_statements(namespaced("rate_limits")).refund, {"bucket": bucket, "key": _fitting(key)})


def allow_once(*, group: str, key: str, interval: timedelta) -> float | None:
    """Admit an event of (`group`, `key`) unless the one admitted before is younger than `interval`.

    None when admitted, and the time is noted; else the seconds that remain.
    """
    return consume(bucket=group, key=key, burst=1, per_second=0, life=interval)


def consume_event(*, bucket: str, rate: conf.Rate) -> float | None:
    """Count one event of the whole installation.

    None when counted; else the seconds until one will be, infinite for a rate that allows none. A window opens with
    the first event after the previous one has ended.
    """
    if rate.events < 1:
        return math.inf
    per_second, life = _refill(rate)
    return consume(bucket=bucket, key=_EVERYBODY, burst=rate.events, per_second=per_second, life=life)


def check_event(*, bucket: str, rate: conf.Rate) -> float | None:
    """What `consume_event` would answer now. Nothing is taken."""
    if rate.events < 1:
        return math.inf
    per_second, life = _refill(rate)
    values: dict[str, Any] = {
        "bucket": bucket,
        "key": _EVERYBODY,
        "burst": float(rate.events),
        "rate": per_second,
        "life": life,
    }
    with connection.cursor() as cursor:
        cursor.execute(_statements(namespaced("rate_limits")).wait, values)
        row = cursor.fetchone()
    return float(row[0]) if row and row[0] else None


def _refill(rate: conf.Rate) -> tuple[float, timedelta]:
    """Events that come back per second, and how long a counter of this rate lives."""
    return (0.0, _WINDOW) if rate.over is None else (1 / rate.over.total_seconds(), _UNENDING)


def reset(buckets: Iterable[str]) -> None:
    """Forget what has been counted in these buckets."""
    with connection.cursor() as cursor:
        cursor.execute(_statements(namespaced("rate_limits")).reset, {"buckets": list(buckets)})


def delete_expired() -> int:
    """Remove counters that nobody has touched for so long that they no longer limit anything; how many went.

    A row does not say how long it counts. Request limits end within the hour, message frequencies with their
    interval; a day covers both unless an operator set a longer interval. The counters of the whole installation, one
    row each, stay.
    """
    auth = conf.current()
    kept = max(_KEPT, auth.sms.max_frequency, auth.mfa.phone_max_frequency, auth.smtp.max_frequency or _KEPT)
    values: dict[str, Any] = {"everybody": _EVERYBODY, "kept": kept, "limit": _SWEPT_AT_ONCE}
    with connection.cursor() as cursor:
        cursor.execute(_statements(namespaced("rate_limits")).delete_expired, values)
        return int(cursor.rowcount)


class _Statements:
    """The SQL for one table; its name is quoted, and every value is a parameter."""

    __slots__ = ("consume", "delete_expired", "refund", "reset", "wait")

    def __init__(self, table: str) -> None:
        self.consume = f"""
            INSERT INTO {table} AS r (bucket, key, tokens, created_at, updated_at)
            VALUES (%(bucket)s, %(key)s, %(burst)s - 1, clock_timestamp(), clock_timestamp())
            ON CONFLICT (bucket, key) DO UPDATE
            SET tokens = {_LEVEL} - 1, updated_at = clock_timestamp(),
                created_at = CASE WHEN {_OLD} THEN clock_timestamp() ELSE r.created_at END
            WHERE {_LEVEL} >= 1 RETURNING tokens"""  # noqa: S608  (own name)
        # More than the capacity is never counted, so one too many does no harm.
        self.refund = f"UPDATE {table} SET tokens = tokens + 1 WHERE bucket = %(bucket)s AND key = %(key)s"  # noqa: S608  (own name)
        # Either enough is refilled or the bucket ends, whichever comes first.
        self.wait = f"""
            SELECT CASE WHEN {_LEVEL} >= 1 THEN 0 ELSE GREATEST(0, LEAST((1 - {_LEVEL}) / NULLIF(%(rate)s, 0),
                EXTRACT(epoch FROM r.created_at + %(life)s - clock_timestamp()))) END
            FROM {table} r WHERE bucket = %(bucket)s AND key = %(key)s"""  # noqa: S608  (own name)
        self.reset = f"DELETE FROM {table} WHERE bucket = ANY(%(buckets)s)"  # noqa: S608  (own name)
        # Rows in use are left to the next run, so that sweeping never waits.
        self.delete_expired = f"""
            DELETE FROM {table} WHERE (bucket, key) IN (
                SELECT bucket, key FROM {table} WHERE key <> %(everybody)s
                AND updated_at < clock_timestamp() - %(kept)s LIMIT %(limit)s FOR UPDATE SKIP LOCKED)"""  # noqa: S608  (own name)


@cache
def _statements(table: str) -> _Statements:
    return _Statements(connection.ops.quote_name(table))


def _fitting(key: str) -> str:
    """A key that fits into an index entry: a client may send kilobytes in the header that serves as its key."""
    return key if len(key) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()
