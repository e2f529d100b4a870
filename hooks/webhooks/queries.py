"""SQL of webhooks: recording, fan-out, leases and results of deliveries.

An invariant keeps the order: of the pending deliveries of a user to an endpoint, exactly one has a `next_attempt_at`.
Functions that could break it for rows that they do not see take the lock of the order: results share it, the others
have it alone. Each function runs in the caller's transaction.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from authsvc.db.sql import fetch_row, fetch_rows, namespaced

EVENTS = namespaced("webhook_events")
DELIVERIES = namespaced("webhook_deliveries")
ENDPOINTS = namespaced("webhook_endpoints")
ATTEMPTS = namespaced("webhook_attempts")
_SEQUENCE = namespaced("webhook_events_sequence_seq")

SCRUB_EVENT = (
    "user_id = NULL, must_scrub = false, body = convert_to(json_build_object('id', 'evt_' || id, 'type', type,"
    " 'timestamp', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'),"
    " 'sequence', sequence, 'scrubbed', true)::text, 'UTF8')"
)
"""SET clause that removes the personal data of an event."""

_INSERT_EVENT = f"""
    INSERT INTO {EVENTS} (id, sequence, type, user_id, body, is_fanned_out, created_at)
    SELECT %(id)s, n, %(type)s, %(user_id)s, %(head)s || convert_to(n::text, 'UTF8') || %(tail)s, %(is_fanned_out)s,
        %(at)s
    FROM nextval('{_SEQUENCE}') AS n"""

# Rows are locked in the order of `_SCRUB`, so that neither statement waits for the other in a circle. The order of the
# pending deliveries keeps the planner from a sequential scan if it expects many of one user.
_FAN_OUT = f"""
    WITH batch AS MATERIALIZED (
        SELECT id, sequence, type, user_id FROM {EVENTS} WHERE NOT is_fanned_out ORDER BY sequence LIMIT %(limit)s
        FOR NO KEY UPDATE
    ), marked AS (
        UPDATE {EVENTS} e SET is_fanned_out = true FROM batch b WHERE e.id = b.id
    ), subscribed AS (
        SELECT b.*, p.id AS endpoint_id, row_number() OVER (PARTITION BY p.id, b.user_id ORDER BY b.sequence) AS number
        FROM batch b JOIN {ENDPOINTS} p ON p.disabled_at IS NULL AND p.deleted_at IS NULL
            AND p.event_types && ARRAY['*', b.type, split_part(b.type, '.', 1) || '.*']
    ), inserted AS (
        INSERT INTO {DELIVERIES}
            (id, event_id, endpoint_id, type, user_id, sequence, next_attempt_at, created_at)
        SELECT gen_random_uuid(), s.id, s.endpoint_id, s.type, s.user_id, s.sequence,
            CASE WHEN s.user_id IS NULL OR (s.number = 1 AND (
                SELECT d.sequence FROM {DELIVERIES} d
                WHERE d.endpoint_id = s.endpoint_id AND d.user_id = s.user_id AND d.status = 'pending'
                ORDER BY d.sequence LIMIT 1
            ) IS NULL) THEN %(at)s::timestamptz END, %(at)s
        FROM subscribed s
    )
    SELECT count(*) FROM batch"""

_LEASE = f"""
    WITH chosen AS (
        SELECT due.id
        FROM unnest(%(endpoints)s::uuid[], %(limits)s::int[]) WITH ORDINALITY AS p (id, size, position)
        CROSS JOIN LATERAL (
            SELECT d.id FROM {DELIVERIES} d
            WHERE d.endpoint_id = p.id AND d.status = 'pending' AND d.next_attempt_at <= %(at)s
                AND (d.leased_until IS NULL OR d.leased_until <= %(at)s)
            ORDER BY d.next_attempt_at LIMIT p.size FOR UPDATE SKIP LOCKED
        ) due
        ORDER BY p.position LIMIT %(limit)s
    )
    UPDATE {DELIVERIES} d
    SET attempts = attempts + 1, leased_until = %(until)s, last_attempt_at = %(at)s
    FROM chosen, {EVENTS} e, {ENDPOINTS} p
    WHERE d.id = chosen.id AND e.id = d.event_id
        AND p.id = d.endpoint_id AND p.disabled_at IS NULL AND p.deleted_at IS NULL
    RETURNING d.id, d.event_id, d.endpoint_id, p.url, d.type, d.attempts, d.attempts - d.earlier_attempts, e.body"""

# A delivery that was cancelled during its attempt stays so, unless the attempt has succeeded.
_STORE_RESULTS = f"""
    WITH result AS (
        SELECT * FROM unnest(
            %(ids)s::uuid[], %(attempts)s::int[], %(outcomes)s::text[], %(next)s::timestamptz[],
            %(started)s::timestamptz[], %(durations)s::int[], %(statuses)s::int[], %(errors)s::text[], %(heads)s::text[]
        ) AS r (id, attempt, outcome, next_attempt_at, started_at, duration_ms, status, error, head)
    ), stored AS (
        UPDATE {DELIVERIES} d
        SET status = CASE WHEN d.status = 'cancelled' AND r.outcome <> 'succeeded' THEN d.status ELSE r.outcome END,
            next_attempt_at = CASE WHEN d.status = 'pending' THEN r.next_attempt_at END,
            leased_until = NULL, last_status = r.status, last_error = r.error,
            succeeded_at = CASE WHEN r.outcome = 'succeeded' THEN %(at)s::timestamptz ELSE d.succeeded_at END
        FROM result r
        WHERE d.id = r.id AND d.attempts = r.attempt AND d.status IN ('pending', 'cancelled')
        RETURNING d.id, d.endpoint_id, d.user_id, d.status
    ), released AS (
        UPDATE {DELIVERIES} d SET next_attempt_at = %(at)s
        FROM stored s CROSS JOIN LATERAL (
            SELECT w.id FROM {DELIVERIES} w
            WHERE w.endpoint_id = s.endpoint_id AND w.user_id = s.user_id AND w.status = 'pending' AND w.id <> s.id
            ORDER BY w.sequence LIMIT 1
        ) w
        WHERE s.status <> 'pending' AND d.id = w.id AND d.next_attempt_at IS NULL
    )
    INSERT INTO {ATTEMPTS} (delivery_id, attempt, started_at, duration_ms, status, error, response_head)
    SELECT r.id, r.attempt, r.started_at, r.duration_ms, r.status, r.error, r.head
    FROM result r JOIN stored USING (id)"""

# Waiting deliveries come first, so that the order of the others holds if the endpoint is enabled again meanwhile.
# The row of the endpoint decides: the cache of the caller may show a former state.
_CANCEL = f"""
    UPDATE {DELIVERIES} SET status = 'cancelled', next_attempt_at = NULL
    WHERE id IN (
        SELECT id FROM {DELIVERIES} WHERE endpoint_id = %(endpoint_id)s AND status = 'pending' AND EXISTS (
            SELECT FROM {ENDPOINTS} WHERE id = %(endpoint_id)s AND (disabled_at IS NOT NULL OR deleted_at IS NOT NULL)
        )
        ORDER BY next_attempt_at DESC NULLS FIRST LIMIT %(limit)s
    )
    RETURNING id"""

# Events with pending deliveries are scrubbed by the cleanup after their end.
_SCRUB = f"""
    WITH event AS MATERIALIZED (
        SELECT e.id, e.is_fanned_out AND NOT EXISTS (
            SELECT FROM {DELIVERIES} d WHERE d.event_id = e.id AND d.status = 'pending'
        ) AS has_ended
        FROM {EVENTS} e WHERE e.user_id = %(user_id)s ORDER BY e.sequence FOR NO KEY UPDATE
    ), kept AS (
        UPDATE {EVENTS} SET must_scrub = true WHERE id IN (SELECT id FROM event WHERE NOT has_ended)
    ), scrubbed AS (
        UPDATE {EVENTS} SET {SCRUB_EVENT} WHERE id IN (SELECT id FROM event WHERE has_ended) RETURNING id
    ), anonymous AS (
        UPDATE {DELIVERIES} d SET user_id = NULL FROM scrubbed s WHERE d.event_id = s.id RETURNING d.id
    ), emptied AS (
        UPDATE {ATTEMPTS} a SET response_head = NULL FROM anonymous d WHERE a.delivery_id = d.id
    )
    SELECT (SELECT count(*) FROM scrubbed), (SELECT count(*) FROM anonymous)"""

# No worker leases these rows meanwhile.
_LOCK_FIRST = f"""
    SELECT FROM {DELIVERIES}
    WHERE endpoint_id = %(endpoint_id)s AND user_id = ANY(%(users)s::uuid[]) AND status = 'pending'
        AND next_attempt_at IS NOT NULL
    FOR NO KEY UPDATE"""

# Attempts that are under way stay the ones that the others wait for.
_RESTORE_ORDER = f"""
    WITH pending AS (
        SELECT id, first_value(id) OVER (
            PARTITION BY user_id ORDER BY leased_until > %(at)s DESC NULLS LAST, sequence
        ) AS first_id
        FROM {DELIVERIES}
        WHERE endpoint_id = %(endpoint_id)s AND user_id = ANY(%(users)s::uuid[]) AND status = 'pending'
    )
    UPDATE {DELIVERIES} d SET next_attempt_at = CASE WHEN p.id = p.first_id THEN %(at)s::timestamptz END
    FROM pending p WHERE d.id = p.id AND (d.next_attempt_at IS NULL) = (p.id = p.first_id)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A delivery that this worker attempts now."""

    id: UUID
    event_id: UUID
    endpoint_id: UUID
    url: str = field(repr=False)
    """Of the endpoint, whose URL may have changed since the worker has read the endpoints."""
    type: str
    attempt: int
    """Counts from 1 over the whole life of the delivery."""
    scheduled_attempt: int
    """Counts from 1 since the delivery was last repeated."""
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """The result of an attempt, as it is stored."""

    id: UUID
    attempt: int
    outcome: str
    """The status of the delivery; `pending` if it is attempted again."""
    next_attempt_at: datetime | None
    started_at: datetime
    duration_ms: int
    status: int | None
    error: str | None
    head: str | None = field(repr=False)


def insert_event(
    *,
    event_id: UUID,
    type: str,
    user_id: UUID | None,
    head: bytes,
    tail: bytes,
    at: datetime,
    is_fanned_out: bool = False,
) -> None:
    """Store an event; its body is `head`, its sequence number and `tail`. One statement."""
    fetch_rows(
        _INSERT_EVENT,
        {
            "id": event_id, "type": type, "user_id": user_id, "head": head, "tail": tail,
            "is_fanned_out": is_fanned_out, "at": at,
        },
    )  # fmt: skip


def lock_order(*, shared: bool = False) -> None:
    """Wait for the lock of the order, which the transaction holds until its end.

    The statement precedes those that it protects: each of them must see the rows of the previous holder.
    """
    function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    fetch_rows(f"SELECT {function}(%s::bigint) IS NULL", (_order_key(),))


def current_time() -> datetime:
    """The time of the database, by which all workers agree when a delivery is due and a lease ends."""
    ((at,),) = fetch_rows("SELECT clock_timestamp()", ())
    return at  # type: ignore[no-any-return]  # a column


def fan_out(*, limit: int, at: datetime) -> int:
    """Create the deliveries of new events, the earliest first; return the number of the events.

    Must run inside a transaction.
    """
    lock_order()
    ((count,),) = fetch_rows(_FAN_OUT, {"limit": limit, "at": at})
    return int(count)


def has_new_events() -> bool:
    """True if events exist whose deliveries are not created yet. One statement."""
    return fetch_row(f"SELECT 1 FROM {EVENTS} WHERE NOT is_fanned_out LIMIT 1", ()) is not None


def lease(*, limits: Mapping[UUID, int], limit: int, at: datetime, duration: timedelta) -> list[Lease]:
    """Lease due deliveries: at most `limit`, and for each endpoint at most the value of `limits`, in that order.

    One statement. Rows that another worker leases are left out.
    """
    rows = fetch_rows(
        _LEASE,
        {
            "endpoints": list(limits), "limits": list(limits.values()), "limit": limit,
            "at": at, "until": at + duration,
        },
    )  # fmt: skip
    return [
        Lease(
            id=id_, event_id=event_id, endpoint_id=endpoint_id, url=url, type=type_, attempt=attempt,
            scheduled_attempt=scheduled, body=bytes(body),
        )
        for id_, event_id, endpoint_id, url, type_, attempt, scheduled, body in rows
    ]  # fmt: skip


def store_results(results: Sequence[StoredResult], *, at: datetime) -> None:
    """Store results of attempts, and let the next delivery of the same user begin. Must run inside a transaction.

    The result of a lease that another worker took over is dropped.
    """
    lock_order(shared=True)
    fetch_rows(
        _STORE_RESULTS,
        {
            "ids": [result.id for result in results],
            "attempts": [result.attempt for result in results],
            "outcomes": [result.outcome for result in results],
            "next": [result.next_attempt_at for result in results],
            "started": [result.started_at for result in results],
            "durations": [result.duration_ms for result in results],
            "statuses": [result.status for result in results],
            "errors": [result.error for result in results],
            "heads": [result.head for result in results],
            "at": at,
        },
    )


def cancel_deliveries(endpoint_id: UUID, *, limit: int) -> int:
    """Cancel pending deliveries of a disabled or deleted endpoint; their number. Must run inside a transaction."""
    lock_order()
    return len(fetch_rows(_CANCEL, {"endpoint_id": endpoint_id, "limit": limit}))


def scrub(user_id: UUID) -> tuple[int, int]:
    """Remove a user from events and deliveries; the numbers of those that have ended. One statement.

    Joins the caller's transaction. The cleanup removes the user from the others once they have ended.
    """
    ((events, deliveries),) = fetch_rows(_SCRUB, {"user_id": user_id})
    return int(events), int(deliveries)


def restore_order(*, endpoint_id: UUID, users: Iterable[UUID | None], at: datetime) -> None:
    """Make the earliest pending delivery of each user due. The caller holds the lock of the order."""
    known = list({user_id for user_id in users if user_id is not None})
    if known:
        parameters = {"endpoint_id": endpoint_id, "users": known, "at": at}
        fetch_rows(_LOCK_FIRST, parameters)
        fetch_rows(_RESTORE_ORDER, parameters)


def mark_failing(endpoints: Collection[UUID], *, at: datetime) -> None:
    """Record that these endpoints fail since `at`, unless they failed before. One statement."""
    fetch_rows(
        f"UPDATE {ENDPOINTS} SET failing_since = %s WHERE id = ANY(%s) AND failing_since IS NULL", (at, list(endpoints))
    )


def clear_failing(endpoints: Collection[UUID]) -> bool:
    """Record that these endpoints no longer fail; False if none of them did."""
    rows = fetch_rows(
        f"UPDATE {ENDPOINTS} SET failing_since = NULL WHERE id = ANY(%s) AND failing_since IS NOT NULL"
        " AND disabled_at IS NULL RETURNING id",
        (list(endpoints),),
    )
    return bool(rows)


def disable(
    endpoint_id: UUID, *, reason: str, at: datetime, url: str | None = None, failing_since: datetime | None = None
) -> bool:
    """Disable an endpoint.

    False if it is disabled or deleted already, has another URL, or has had a success since `failing_since`.

    The caller may know a former state: administrators and other workers change endpoints too.
    """
    rows = fetch_rows(
        f"UPDATE {ENDPOINTS} SET disabled_at = %(at)s, disabled_reason = %(reason)s, updated_at = %(at)s"
        " WHERE id = %(id)s AND disabled_at IS NULL AND deleted_at IS NULL"
        " AND (%(url)s::text IS NULL OR url = %(url)s)"
        " AND (%(since)s::timestamptz IS NULL OR failing_since <= %(since)s) RETURNING id",
        {"id": endpoint_id, "reason": reason, "at": at, "url": url, "since": failing_since},
    )
    return bool(rows)


@functools.cache
def _order_key() -> int:
    return int.from_bytes(hashlib.sha256(f"authsvc order of {DELIVERIES}".encode()).digest()[:8], signed=True)
