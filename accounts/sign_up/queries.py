"""Statements of sign-up, as hand-written SQL."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from uuid import UUID

from authsvc.db.sql import fetch_row, namespaced


@cache
def _repeat_sign_up(provider: str, time_column: str, is_unowned: bool) -> str:
    unconfirmed = ("email", "phone") if is_unowned else (provider,)
    return f"""
        WITH repeated AS (
            UPDATE {namespaced("users")} SET {time_column} = %(at)s, updated_at = %(at)s,
                encrypted_password = coalesce(%(password)s, encrypted_password),
                raw_user_meta_data = coalesce(%(user_metadata)s::jsonb, raw_user_meta_data)
            WHERE id = %(user_id)s AND deleted_at IS NULL
                AND {" AND ".join(f"{kind}_confirmed_at IS NULL" for kind in unconfirmed)}
            RETURNING id
        ), updated_identity AS (
            UPDATE {namespaced("identities")} i SET identity_data = %(identity_data)s::jsonb, updated_at = %(at)s
            FROM repeated WHERE i.user_id = repeated.id AND i.provider = %(provider)s
                AND %(identity_data)s::jsonb IS NOT NULL
        )
        SELECT id FROM repeated
    """


def repeat_sign_up(
    *,
    user_id: UUID,
    provider: str,
    time_column: str,
    is_unowned: bool,
    password: str | None,
    user_metadata: str | None,
    identity_data: str | None,
    at: datetime,
) -> bool:
    """Overwrite an account whose `provider` (email or phone) is unconfirmed; False when it has been confirmed since.

    With `is_unowned` both must be unconfirmed. The time is written to `time_column`. JSON values are text; None leaves
    a column unchanged.
    """
    values = {
        "user_id": user_id,
        "provider": provider,
        "password": password,
        "user_metadata": user_metadata,
        "identity_data": identity_data,
        "at": at,
    }
    return fetch_row(_repeat_sign_up(provider, time_column, is_unowned), values) is not None
