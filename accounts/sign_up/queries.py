"""Statements of sign-up, as hand-written SQL."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from uuid import UUID

from authsvc.db.sql import namespaced, row


@cache
def _repeat_sign_up(provider: str, stamped: str, is_nobodys: bool) -> str:
    proved = ("email", "phone") if is_nobodys else (provider,)
    return f"""
        WITH repeated AS (
            UPDATE {namespaced("users")} SET {stamped} = %(at)s, updated_at = %(at)s,
                encrypted_password = coalesce(%(password)s, encrypted_password),
                raw_user_meta_data = coalesce(%(user_metadata)s::jsonb, raw_user_meta_data)
            WHERE id = %(user_id)s AND {" AND ".join(f"{each}_confirmed_at IS NULL" for each in proved)}
            RETURNING id
        ), said AS (
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
    stamped: str,
    is_nobodys: bool,
    password: str | None,
    user_metadata: str | None,
    identity_data: str | None,
    at: datetime,
) -> bool:
    """Write over an account whose address or number (`provider`) nobody has proved; False when somebody has by now.

    One that `is_nobodys` must have neither proved. The time goes into the column `stamped`; of the rest, JSON as text,
    what is None stays.
    """
    values = {
        "user_id": user_id,
        "provider": provider,
        "password": password,
        "user_metadata": user_metadata,
        "identity_data": identity_data,
        "at": at,
    }
    return row(_repeat_sign_up(provider, stamped, is_nobodys), values) is not None
