"""The statement that stores the request for a message with a secret, as hand-written SQL."""

from __future__ import annotations

from functools import cache
from uuid import UUID

from authsvc import audit
from authsvc.db.sql import fetch_rows, namespaced
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import NewToken


@cache
def _store_secret_request(sent_at: str) -> str:
    users = namespaced("users")
    requested = (
        f"UPDATE {users} SET {sent_at} = %(at)s, updated_at = %(at)s WHERE id = %(user_id)s AND deleted_at IS NULL"
        " RETURNING id"
        if sent_at
        else f"SELECT id FROM {users} WHERE id = %(user_id)s AND deleted_at IS NULL"
    )
    # The user's row is locked first, as everywhere. Without a user nothing is written, in about the same time.
    return f"""
        WITH requested AS ({requested}), audited AS (
            INSERT INTO {namespaced("audit_log_entries")} (id, payload, created_at, ip_address)
            SELECT %(entry_id)s, %(entry)s::jsonb, %(at)s, %(address)s FROM requested WHERE %(entry)s::jsonb IS NOT NULL
        )
        {one_time_tokens.upsert_sql("requested.id", "FROM requested")}
    """


def store_secret_request(*, user_id: UUID, sent_at: str, entry: audit.PendingEntry, token: NewToken) -> None:
    """Store the request for a secret: its audit entry, its digests, and the time in the user's column `sent_at`.

    One statement. `""` as `sent_at` writes no time. Without such a user, or for a
    soft-deleted one, nothing is written.
    """
    values = {**token, "user_id": user_id, "entry_id": entry.id, "entry": entry.payload, "address": entry.address}
    fetch_rows(_store_secret_request(sent_at), values)
