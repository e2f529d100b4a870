"""Reads audit entries: by text, for the audit endpoint, and by user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry as read; the payload as JSON text."""

    id: UUID
    payload_json: str
    created_at: datetime | None
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


def entries_about_user(user_id: UUID, *, limit: int) -> list[Entry]:
    """Actions of a user and actions of administrators on the user, newest first."""
    return _read(f"{OWNER_ID} = %s", [str(user_id)], limit=limit)


def _read(condition: str, values: Sequence[Any], *, limit: int, offset: int = 0) -> list[Entry]:
    rows = fetch_rows(
        f"SELECT id, {json_object('payload')}, created_at, ip_address FROM {namespaced('audit_log_entries')}"  # noqa: S608  (own name)
        f" WHERE {condition}"
        f" ORDER BY created_at DESC, id DESC LIMIT {limit:d} OFFSET %s",
        [*values, offset],
    )
    return [Entry(id=id_, payload_json=payload, created_at=at, address=ip) for id_, payload, at, ip in rows]


def _count(sql: str, values: Sequence[Any]) -> int:
    counted = fetch_rows(f"SELECT count(*) FROM ({sql}) matches", values)  # noqa: S608  (own text)
    return int(counted[0][0])
