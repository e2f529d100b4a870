"""Hand-written SQL of sessions: rotation of the refresh token counter, and revocation."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from uuid import UUID

from authsvc.db.sql import fetch_row, fetch_rows, namespaced


@cache
def _lock_and_rotate() -> str:
    table = namespaced("sessions")
    return f"""
        WITH locked AS (
            SELECT id, refresh_token_counter AS counter, coalesce(refreshed_at, created_at) AS since
            FROM {table} WHERE id = %s AND refresh_token_counter IS NOT NULL FOR UPDATE SKIP LOCKED)
        UPDATE {table} s SET
            refresh_token_counter = CASE WHEN l.counter = %s THEN l.counter + 1 ELSE l.counter END,
            refreshed_at = CASE WHEN l.counter = %s OR %s THEN %s ELSE s.refreshed_at END,
            refresh_token_hmac_key = coalesce(%s, s.refresh_token_hmac_key),
            user_agent = %s, ip = %s, updated_at = %s
        FROM locked l WHERE s.id = l.id RETURNING l.counter, l.since
    """


def lock_and_rotate(
    *,
    session_id: UUID,
    presented: int,
    reencrypted_key: str | None,
    always_counts_as_use: bool,
    user_agent: str | None,
    ip: str | None,
    at: datetime,
) -> tuple[int, datetime] | None:
    """Locks a session without waiting and increments its counter if it equals the presented one.

    Returns the previous counter and the time of the previous rotation; None when the row is locked or gone.
    Only a rotation updates `refreshed_at`, so that repeating a token does not extend its reuse interval;
    `always_counts_as_use` updates it every time, for configurations without such an interval.
    """
    values = (session_id, presented, presented, always_counts_as_use, at, reencrypted_key, user_agent, ip, at)
    previous = fetch_row(_lock_and_rotate(), values)
    return (previous[0], previous[1]) if previous else None


def delete_sessions(*, user_id: UUID, except_session_id: UUID | None) -> None:
    """Deletes the sessions of a user, and the flows that link an identity to this user."""
    sql = f"""
        WITH abandoned AS (DELETE FROM {namespaced("flow_state")} WHERE linking_target_id = %s)
        DELETE FROM {namespaced("sessions")} WHERE user_id = %s AND id IS DISTINCT FROM %s::uuid
    """
    fetch_rows(sql, (user_id, user_id, except_session_id))


def delete_session(*, session_id: UUID) -> None:
    """Deletes a session, and the flows that link an identity to its user."""
    sql = f"""
        WITH ended AS (DELETE FROM {namespaced("sessions")} WHERE id = %s RETURNING user_id)
        DELETE FROM {namespaced("flow_state")} WHERE linking_target_id IN (SELECT user_id FROM ended)
    """
    fetch_rows(sql, (session_id,))
