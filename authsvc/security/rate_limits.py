"""Token buckets in PostgreSQL, shared by all processes; one statement per event.

A bucket holds `tokens` up to its capacity and is refilled over time. It becomes full again at the end of its life,
counted from its creation. A fixed window is a bucket without refill; "once per interval" is such a bucket of capacity
1. Call these functions outside of transactions, so that no shared row stays locked.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.db import connection

from authsvc import conf
from authsvc.db.sql import fetch_rows, namespaced

_WINDOW = timedelta(hours=1)
_NO_EXPIRY = timedelta(days=36_500)
# The key of buckets for the whole installation; keys of clients and addresses are never empty.
_INSTALLATION = ""
_RETENTION = timedelta(hours=24)
_MAX_KEY_LENGTH = 255
_DELETE_BATCH_SIZE = 10_000
_MAX_DELETE_BATCHES = 100

# Times are in the future after the clock of the database was set back, or a standby with another clock took over.
_OLD = "clock_timestamp() NOT BETWEEN r.created_at - %(life)s AND r.created_at + %(life)s"
_LEVEL = f"""CASE WHEN {_OLD} THEN %(burst)s ELSE LEAST(%(burst)s,
    r.tokens + %(rate)s * GREATEST(0, EXTRACT(epoch FROM clock_timestamp() - r.updated_at))) END"""


def consume(*, bucket: str, key: str, burst: float, per_second: float, life: timedelta) -> float | None:
    """Take one token from the bucket `bucket` of `key`: capacity `burst`, refilled by `per_second`.

    Returns None on success; else consumes nothing and returns the seconds until a token is available.
    """
    if burst < 1:  # the statement inserts a first event without checking the level
        return life.total_seconds()
    statements = _statements(namespaced("rate_limits"))
    values: dict[str, Any] = {
        "bucket": bucket,
        "key": _index_key(key),
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
    """Return the token of one `consume`, for an event that does not count after all."""
    with connection.cursor() as cursor:
        cursor.execute(_statements(namespaced("rate_limits")).refund, {"bucket": bucket, "key": _index_key(key)})


def allow_once(*, group: str, key: str, interval: timedelta) -> float | None:
    """Allow an event of (`group`, `key`) unless the last allowed one is younger than `interval`.

    Returns None if allowed, and records the time; else the remaining seconds.
    """
    return consume(bucket=group, key=key, burst=1, per_second=0, life=interval)


def consume_event(*, bucket: str, rate: conf.Rate, key: str = _INSTALLATION) -> float | None:
    """Count one event of `key`, by default of the whole installation.

    Returns None if counted; else the seconds until the next event is allowed, infinite for a rate of zero. A window
    opens with the first event after the end of the previous one.
    """
    if rate.events < 1:
        return math.inf
    per_second, life = _refill(rate)
    return consume(bucket=bucket, key=key, burst=rate.events, per_second=per_second, life=life)


def check_event(*, bucket: str, rate: conf.Rate) -> float | None:
    """The result that `consume_event` would return now; consumes nothing."""
    if rate.events < 1:
        return math.inf
    per_second, life = _refill(rate)
    values: dict[str, Any] = {
        "bucket": bucket,
        "key": _INSTALLATION,
        "burst": float(rate.events),
        "rate": per_second,
        "life": life,
    }
    with connection.cursor() as cursor:
        cursor.execute(_statements(namespaced("rate_limits")).wait, values)
        row = cursor.fetchone()
    return float(row[0]) if row and row[0] else None


def read_levels(rates: Mapping[str, conf.Rate]) -> dict[str, tuple[int, datetime | None]]:
    """Bucket of the installation → its whole tokens, and the time at which it is full; None if it is full now.

    Runs one statement. The time is also None for a rate of zero.
    """
    rows = fetch_rows(_statements(namespaced("rate_limits")).levels, (_INSTALLATION, list(rates)))
    levels: dict[str, tuple[int, datetime | None]] = {bucket: (rate.events, None) for bucket, rate in rates.items()}
    for bucket, tokens, created_at, updated_at, now in rows:
        rate = rates[bucket]
        per_second, life = _refill(rate)
        level = min(rate.events, tokens + per_second * max(0.0, (now - updated_at).total_seconds()))
        ends_at = created_at + life
        if level < rate.events and created_at - life <= now < ends_at:
            if per_second:
                seconds = min((rate.events - level) / per_second, (ends_at - now).total_seconds())
                ends_at = now + timedelta(seconds=seconds)
            levels[bucket] = int(level), ends_at
    return levels


def _refill(rate: conf.Rate) -> tuple[float, timedelta]:
    """Refill per second and life of the bucket of this rate."""
    return (0.0, _WINDOW) if rate.over is None else (1 / rate.over.total_seconds(), _NO_EXPIRY)


def _time_to_fill(rate: conf.Rate) -> timedelta:
    """The time in which the empty bucket of this rate is full, at most the life of such a bucket."""
    per_second, life = _refill(rate)
    seconds = rate.events / per_second if per_second else math.inf
    return timedelta(seconds=min(seconds, life.total_seconds()))


def reset(buckets: Iterable[str]) -> None:
    """Delete the counters of these buckets."""
    with connection.cursor() as cursor:
        cursor.execute(_statements(namespaced("rate_limits")).reset, {"buckets": list(buckets)})


def delete_expired() -> int:
    """Delete counters that no longer limit anything, up to a million. Returns their number.

    A row does not contain its life. Request limits end within an hour, message intervals after their setting, and a
    client's share of a quota when it is full again; one day covers them unless longer times are configured. The
    counters of the installation, one row each, are kept.
    """
    auth = conf.current()
    retention = max(
        _RETENTION,
        auth.sms.max_frequency,
        auth.mfa.phone_max_frequency,
        auth.smtp.max_frequency or _RETENTION,
        *(_time_to_fill(rate) for rate in (auth.limits.email_sent, auth.limits.sms_sent)),
    )
    values: dict[str, Any] = {"installation": _INSTALLATION, "retention": retention, "limit": _DELETE_BATCH_SIZE}
    deleted = 0
    with connection.cursor() as cursor:
        # Clients choose keys, so the number of rows that expire at once has no fixed limit.
        for _ in range(_MAX_DELETE_BATCHES):
            cursor.execute(_statements(namespaced("rate_limits")).delete_expired, values)
            deleted += int(cursor.rowcount)
            if cursor.rowcount < _DELETE_BATCH_SIZE:
                break
    return deleted


class _Statements:
    """The SQL statements for one table, whose name is quoted; every value is a parameter."""

    __slots__ = ("consume", "delete_expired", "levels", "refund", "reset", "wait")

    def __init__(self, table: str) -> None:
        self.consume = f"""
            INSERT INTO {table} AS r (bucket, key, tokens, created_at, updated_at)
            VALUES (%(bucket)s, %(key)s, %(burst)s - 1, clock_timestamp(), clock_timestamp())
            ON CONFLICT (bucket, key) DO UPDATE
            SET tokens = {_LEVEL} - 1, updated_at = clock_timestamp(),
                created_at = CASE WHEN {_OLD} THEN clock_timestamp() ELSE r.created_at END
            WHERE {_LEVEL} >= 1 RETURNING tokens"""  # noqa: S608  (own name)
        # The level is capped at the capacity, so an extra token has no effect.
        self.refund = f"UPDATE {table} SET tokens = tokens + 1 WHERE bucket = %(bucket)s AND key = %(key)s"  # noqa: S608  (own name)
        # A token becomes available by refill or at the end of the life, whichever is first.
        self.wait = f"""
            SELECT CASE WHEN {_LEVEL} >= 1 THEN 0 ELSE GREATEST(0, LEAST((1 - {_LEVEL}) / NULLIF(%(rate)s, 0),
                EXTRACT(epoch FROM r.created_at + %(life)s - clock_timestamp()))) END
            FROM {table} r WHERE bucket = %(bucket)s AND key = %(key)s"""  # noqa: S608  (own name)
        self.levels = f"""
            SELECT bucket, tokens, created_at, updated_at, clock_timestamp()
            FROM {table} WHERE key = %s AND bucket = ANY(%s)"""  # noqa: S608  (own name)
        self.reset = f"DELETE FROM {table} WHERE bucket = ANY(%(buckets)s)"  # noqa: S608  (own name)
        # Locked rows are left to the next run, so that the cleanup never waits.
        self.delete_expired = f"""
            DELETE FROM {table} WHERE (bucket, key) IN (
                SELECT bucket, key FROM {table} WHERE key <> %(installation)s
                AND updated_at < clock_timestamp() - %(retention)s LIMIT %(limit)s FOR UPDATE SKIP LOCKED)"""  # noqa: S608  (own name)


@cache
def _statements(table: str) -> _Statements:
    return _Statements(connection.ops.quote_name(table))


def _index_key(key: str) -> str:
    """The key, hashed if it is too long for an index entry; clients choose the header that is their key."""
    return key if len(key) <= _MAX_KEY_LENGTH else hashlib.sha256(key.encode()).hexdigest()
