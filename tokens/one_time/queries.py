"""Hand-written SQL of one-time tokens."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import TypedDict
from uuid import UUID

from authsvc.db.sql import fetch_row, fetch_rows, namespaced


class NewToken(TypedDict):
    """The parameters of `upsert_sql`; hashes in hex."""

    token_id: UUID
    token_type: str
    token_hash: str
    link_hash: str | None
    relates_to: str
    at: datetime


@cache
def upsert_sql(user_id: str, source: str = "") -> str:
    """SQL that stores a one-time token and replaces the user's previous token of that type, including its id.

    `user_id` is an SQL expression, over the rows of `source` if that is given; the parameters are those of NewToken.
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


def store(token: NewToken, *, user_id: UUID) -> None:
    fetch_rows(upsert_sql("%(user_id)s"), {**token, "user_id": user_id})


def delete_all(user_id: UUID) -> None:
    fetch_rows(f"DELETE FROM {namespaced('one_time_tokens')} WHERE user_id = %s", (user_id,))


@cache
def _consume_all() -> str:
    return f"""
        DELETE FROM {namespaced("one_time_tokens")} WHERE user_id = %s AND (id <> %s OR attempts < %s) RETURNING id
    """


def consume_all(*, id: UUID, user_id: UUID, attempts_below: int) -> bool:
    """Deletes a one-time token and all other tokens of its user; True if this transaction deleted it.

    A token with `attempts_below` or more wrong codes is kept. The statement waits for concurrent updates of the row,
    so simultaneous wrong codes count.
    """
    return (id,) in fetch_rows(_consume_all(), (user_id, id, attempts_below))


def consume(*, id: UUID, attempts_below: int) -> bool:
    """The same for this token alone."""
    sql = f"DELETE FROM {namespaced('one_time_tokens')} WHERE id = %s AND attempts < %s RETURNING id"
    return fetch_row(sql, (id, attempts_below)) is not None
