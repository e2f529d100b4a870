"""Reads audit entries: by text, for the audit endpoint, and by user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from authsvc.db.sql import explain, fetch_rows, json_object, namespaced

SCOPES: Mapping[str, tuple[str, ...]] = {
    "author": ("actor_username", "actor_name", "actor_role", "actor_sub"),
    "action": ("action",),
    "type": ("log_type",),
}
"""Search scope → keys of the payload that are searched."""
_MAX_COUNTED = 10_000

# Both expressions are those of indexes. An entry belongs to the user on whom an administrator acted, or else to its
# actor.
OWNER_ID = "COALESCE(payload -> 'traits' ->> 'user_id', payload ->> 'actor_id')"
HAS_OTHER_ACTOR = (
    f"(payload -> 'traits' ->> 'user_id' <> payload ->> 'actor_id' AND payload ->> 'actor_id' <> '{UUID(int=0)}')"
)
"""True for entries that belong to one user and name another one as actor."""


class EntryKind(StrEnum):
    """A class of actions. The index by user contains it, so that rare entries are found among many others."""

    SIGN_IN = "sign_in"
    REFUSAL = "refusal"
    MESSAGE = "message"
    NOTE = "note"
    ACCESS = "access"
    """Refreshes, and views of personal data."""
    CHANGE = "change"
    """Every other action, unknown ones too."""


# The expression of an index too. An action that is not listed is a CHANGE.
KIND = (
    "CASE payload ->> 'action' WHEN 'token_refreshed' THEN 'access' WHEN 'personal_data_viewed' THEN 'access'"
    " WHEN 'login' THEN 'sign_in' WHEN 'logout' THEN 'sign_in' WHEN 'user_signedup' THEN 'sign_in'"
    " WHEN 'invite_accepted' THEN 'sign_in' WHEN 'challenge_created' THEN 'sign_in'"
    " WHEN 'verification_attempted' THEN 'sign_in' WHEN 'recovery_code_used' THEN 'sign_in'"
    " WHEN 'sign_in_refused' THEN 'refusal' WHEN 'user_change_refused' THEN 'refusal'"
    " WHEN 'user_recovery_requested' THEN 'message' WHEN 'user_reauthenticate_requested' THEN 'message'"
    " WHEN 'user_confirmation_requested' THEN 'message' WHEN 'user_repeated_signup' THEN 'message'"
    " WHEN 'message_retried' THEN 'message' WHEN 'operator_note_added' THEN 'note' ELSE 'change' END"
)
_FIRST_TIME = "0001-01-03T00:00:00Z"
"""All earlier times are read as one Python time, from which the next page could not continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry as read; the payload as JSON text."""

    id: UUID
    payload_json: str
    created_at: datetime
    address: str


def find_entries(*, scope: str, value: str, limit: int, offset: int, count_exactly: bool) -> tuple[list[Entry], int]:
    """Entries whose keys of `scope` contain `value`, newest first, and their total number.

    `%` and `_` in the value match any text and any character; an empty value matches every entry. The total is exact
    up to 10,000; above that it is the planner's estimate unless `count_exactly`.
    """
    keys = SCOPES[scope] if value else ()
    condition = " OR ".join(f"payload ->> '{key}' ILIKE %s" for key in keys) or "true"
    values: list[Any] = [f"%{value}%"] * len(keys)
    entries = _read(f"{condition}", values, limit=limit, offset=offset)
    if len(entries) < limit and (entries or not offset):
        return entries, offset + len(entries)
    matches = f"SELECT FROM {namespaced('audit_log_entries')} WHERE {condition}"
    if count_exactly:
        return entries, _count(matches, values)
    counted = _count(f"{matches} LIMIT {_MAX_COUNTED + 1}", values)
    if counted <= _MAX_COUNTED:
        return entries, counted
    return entries, max(explain(matches, values).rows, counted, offset + len(entries))


def entries_about_user(
    user_id: UUID,
    *,
    limit: int,
    kinds: Collection[EntryKind] = tuple(EntryKind),
    before: tuple[datetime, UUID] | None = None,
) -> list[Entry]:
    """Actions of a user and actions of administrators on the user, newest first. One statement.

    `before` is the time and ID of an entry, which the result follows.
    """
    condition = f"{OWNER_ID} = %s AND {KIND} = kind"
    values: list[Any] = [str(user_id)]
    if before:
        condition += f" AND created_at >= '{_FIRST_TIME}' AND (created_at, id) < (%s, %s)"
        values += before
    newest_of_kind = _select(condition, limit=limit)
    rows = fetch_rows(
        f"SELECT entry.* FROM unnest(%s::text[]) AS kind CROSS JOIN LATERAL ({newest_of_kind}) AS entry"  # noqa: S608  (own text)
        f" ORDER BY created_at DESC, id DESC LIMIT {limit:d}",
        [[str(kind) for kind in kinds], *values],
    )
    return _entries(rows)


def _read(condition: str, values: Sequence[Any], *, limit: int, offset: int = 0) -> list[Entry]:
    return _entries(fetch_rows(f"{_select(condition, limit=limit)} OFFSET %s", [*values, offset]))


def _select(condition: str, *, limit: int) -> str:
    return (
        f"SELECT id, {json_object('payload')} AS payload_json, created_at, ip_address"  # noqa: S608  (own name)
        f" FROM {namespaced('audit_log_entries')} WHERE {condition} ORDER BY created_at DESC, id DESC LIMIT {limit:d}"
    )


def _entries(rows: Sequence[tuple[Any, ...]]) -> list[Entry]:
    return [Entry(id=id_, payload_json=payload, created_at=at, address=ip) for id_, payload, at, ip in rows]


def _count(sql: str, values: Sequence[Any]) -> int:
    counted = fetch_rows(f"SELECT count(*) FROM ({sql}) matches", values)  # noqa: S608  (own text)
    return int(counted[0][0])
