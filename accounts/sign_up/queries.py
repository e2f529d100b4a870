"""Statements of sign-up, as hand-written SQL."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from uuid import UUID

from accounts.passwords import hashing
from authsvc.db.sql import fetch_row, namespaced


@cache
def _repeat_sign_up(time_column: str, has_to_agree: bool) -> str:
    conditions = [
        f"{column} IS NULL"
        for column in ("email_confirmed_at", "phone_confirmed_at", "last_sign_in_at", "invited_at", "deleted_at")
    ]
    agrees = "encrypted_password = %(agreed_password)s::text"
    if has_to_agree:
        conditions += [agrees]
    return f"""
        WITH repeated AS (
            UPDATE {namespaced("users")} SET {time_column} = %(at)s, updated_at = %(at)s, aud = %(aud)s,
                encrypted_password = CASE WHEN {agrees} THEN encrypted_password ELSE %(no_password)s END,
                raw_user_meta_data = CASE WHEN {agrees} THEN coalesce(%(user_metadata)s::jsonb, raw_user_meta_data)
                    ELSE raw_user_meta_data END
            WHERE id = %(user_id)s AND {" AND ".join(conditions)}
            RETURNING id, {agrees} AS agrees
        ), updated_identity AS (
            UPDATE {namespaced("identities")} i SET identity_data = %(identity_data)s::jsonb, updated_at = %(at)s
            FROM repeated WHERE i.user_id = repeated.id AND i.provider = %(provider)s AND repeated.agrees
                AND %(identity_data)s::jsonb IS NOT NULL
        )
        SELECT agrees FROM repeated
    """


def repeat_sign_up(
    *,
    user_id: UUID,
    aud: str,
    provider: str,
    time_column: str,
    has_to_agree: bool,
    agreed_password: str | None,
    user_metadata: str | None,
    identity_data: str | None,
    at: datetime,
) -> bool | None:
    """Repeat the sign-up of an account that no person controls; None when that has changed, or it has been invited.

    `agreed_password` is the stored password if it is that of the request, else None. True when it is still stored: the
    request then replaces the data. Otherwise False, and the account is left without a password; with `has_to_agree`
    None, and nothing is written. The account moves to the audience `aud`. The time is written to `time_column`. JSON
    values are text; None leaves a column unchanged.
    """
    values = {
        "user_id": user_id,
        "aud": aud,
        "provider": provider,
        "agreed_password": agreed_password,
        "no_password": hashing.NO_PASSWORD,
        "user_metadata": user_metadata,
        "identity_data": identity_data,
        "at": at,
    }
    row = fetch_row(_repeat_sign_up(time_column, has_to_agree), values)
    return None if row is None else bool(row[0])
