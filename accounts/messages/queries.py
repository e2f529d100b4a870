"""The statement behind every message with a secret, as hand-written SQL."""

from __future__ import annotations

from functools import cache
from uuid import UUID

from authsvc import audit
from authsvc.db.sql import namespaced, rows
from tokens import queries as tokens
from tokens.queries import NewToken


@cache
def _note_request(sent_at: str) -> str:
    users = namespaced("users")
    asked = (
        f"UPDATE {users} SET {sent_at} = %(at)s, updated_at = %(at)s WHERE id = %(user_id)s RETURNING id"
        if sent_at
        else f"SELECT id FROM {users} WHERE id = %(user_id)s"
    )
    # The user's row is locked first, as everywhere. Without a user nothing is written, in about the same time.
    return f"""
        WITH asked AS ({asked}), noted AS (
            INSERT INTO {namespaced("audit_log_entries")} (id, payload, created_at, ip_address)
            SELECT %(entry_id)s, %(entry)s::jsonb, %(at)s, '' FROM asked WHERE %(entry)s::jsonb IS NOT NULL
        )
        {tokens.storing_one_time_token("asked.id", "FROM asked")}
    """


def note_request(*, user_id: UUID, sent_at: str, entry: audit.PendingEntry, token: NewToken) -> None:
    """Write what a request for a secret leaves behind: audit entry, digests, the time in the user's column `sent_at`.

    One statement. The time is left alone where `sent_at` is `""`, and nothing is written for a user that there is not.
    """
    values = {**token, "user_id": user_id, "entry_id": entry.id, "entry": entry.payload}
    rows(_note_request(sent_at), values)
