"""The hot writes of tokens as hand-written SQL: taking a session's turn, storing and spending one-time secrets."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import TypedDict
from uuid import UUID

from authsvc.db.sql import fetch_row, fetch_rows, namespaced


@cache
def _lock_and_swap() -> str:
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


def lock_and_swap(
    *,
    session_id: UUID,
    presented: int,
    resealed_key: str | None,
    always_counts_as_use: bool,
    user_agent: str | None,
    ip: str | None,
    at: datetime,
) -> tuple[int, datetime] | None:
    """Lock a session without waiting and advance its counter if it is still the presented one.

    Returns the counter found and the time of the last rotation before; None when somebody holds the row or it is gone.
    The time of the last use is moved by a rotation only, so that repeating a token does not stretch its interval;
    `always_counts_as_use` moves it each time, for configurations in which no such interval ends a session.
    """
    values = (session_id, presented, presented, always_counts_as_use, at, resealed_key, user_agent, ip, at)
    found = fetch_row(_lock_and_swap(), values)
    return (found[0], found[1]) if found else None


class NewToken(TypedDict):
    """The parameters of `storing_one_time_token`; hashes in hex."""

    token_id: UUID
    token_type: str
    token_hash: str
    link_hash: str | None
    relates_to: str
    at: datetime


@cache
def storing_one_time_token(user_id: str, source: str = "") -> str:
    """SQL that stores a one-time secret in place of the user's former of that type; the new id ends the former.

    `user_id` is an expression, of the rows of `source` if that is given; the parameters are those of NewToken.
    """
    return f"""
        INSERT INTO {namespaced("one_time_tokens")}
            (id, user_id, token_type, token_hash, link_hash, relates_to, attempts, created_at, updated_at)
        SELECT %(token_id)s, {user_id}, %(token_type)s, %(token_hash)s, %(link_hash)s, %(relates_to)s, 0,
            %(at)s, %(at)s {source}
        ON CONFLICT (user_id, token_type) DO UPDATE SET
            id = EXCLUDED.id, token_hash = EXCLUDED.token_hash, link_hash = EXCLUDED.link_hash,
            relates_to = EXCLUDED.relates_to, attempts = 0, created_at = EXCLUDED.created_at,
            updated_at = EXCLUDED.updated_at
    """


def store_one_time_token(token: NewToken, *, user_id: UUID) -> None:
    fetch_rows(storing_one_time_token("%(user_id)s"), {**token, "user_id": user_id})


def delete_one_time_tokens(user_id: UUID) -> None:
    fetch_rows(f"DELETE FROM {namespaced('one_time_tokens')} WHERE user_id = %s", (user_id,))


@cache
def _spend_one_time_token() -> str:
    return f"""
        DELETE FROM {namespaced("one_time_tokens")} WHERE user_id = %s AND (id <> %s OR attempts < %s) RETURNING id
    """


def spend_one_time_token(*, id: UUID, user_id: UUID, attempts_below: int) -> bool:
    """Delete a one-time secret with every other of its user; whether it was this transaction that deleted it.

    One that has `attempts_below` wrong codes noted stays. The row is asked once nobody else holds it, so that guesses
    at the same moment count.
    """
    return (id,) in fetch_rows(_spend_one_time_token(), (user_id, id, attempts_below))


def take_one_time_token(*, id: UUID, attempts_below: int) -> bool:
    """The same for this secret alone."""
    sql = f"DELETE FROM {namespaced('one_time_tokens')} WHERE id = %s AND attempts < %s RETURNING id"
    return fetch_row(sql, (id, attempts_below)) is not None


def end_sessions(*, user_id: UUID, but: UUID | None) -> None:
    """Delete the sessions of a user, or all but one, and the flows that were to link somebody's identity to them."""
    sql = f"""
        WITH abandoned AS (DELETE FROM {namespaced("flow_state")} WHERE linking_target_id = %s)
        DELETE FROM {namespaced("sessions")} WHERE user_id = %s AND id IS DISTINCT FROM %s::uuid
    """
    fetch_rows(sql, (user_id, user_id, but))


def end_session(*, session_id: UUID) -> None:
    """Delete a session, and the flows that were to link somebody's identity to its user."""
    sql = f"""
        WITH ended AS (DELETE FROM {namespaced("sessions")} WHERE id = %s RETURNING user_id)
        DELETE FROM {namespaced("flow_state")} WHERE linking_target_id IN (SELECT user_id FROM ended)
    """
    fetch_rows(sql, (session_id,))


def take_flow(*, flow_id: UUID) -> bool:
    """Delete a flow; whether it was this transaction that did."""
    sql = f"DELETE FROM {namespaced('flow_state')} WHERE id = %s RETURNING id"
    return fetch_row(sql, (flow_id,)) is not None


def issue_code(*, user_id: UUID, method: str, at: datetime) -> str | None:
    """Mark the newest PKCE flow of a user and method as answered and return its code."""
    table = namespaced("flow_state")
    sql = f"""
        UPDATE {table} SET auth_code_issued_at = %s, updated_at = %s WHERE id = (
            SELECT id FROM {table} WHERE user_id = %s AND authentication_method = %s AND code_challenge IS NOT NULL
            ORDER BY created_at DESC, id DESC LIMIT 1)
        RETURNING auth_code
    """
    found = fetch_row(sql, (at, at, user_id, method))
    return str(found[0]) if found else None
