"""Finding users: by page or by cursor, by part of their address or name, by exactly what they are known by."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from accounts import errors, list_queries, paging, queries, records, selection
from accounts.paging import Page
from accounts.records import UserRecord
from accounts.selection import Position, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page, its rows as they were read."""

    rows: list[queries.Row]
    total: int
    """Exact up to 10,000, with a filter 3,000; beyond that what the planner expects, unless asked for exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A page by cursor, its rows as they were read; `next_cursor` is empty on the last one."""

    rows: list[queries.Row]
    next_cursor: str


def find(user_id: UUID) -> UserRecord:
    """A user by id, of whatever audience, soft-deleted ones too. Raises UserNotFound."""
    row = queries.by_id(user_id)
    if row is None:
        raise errors.UserNotFound
    return records.read(row)


def page(wanted: Selection, page: Page) -> Listing:
    """A page of the users that are wanted: one statement or two, or three where the statistics are old."""
    found, total = _page(wanted, page)
    if total is None:
        total = paging.total_if_seen(page, shown=len(found))
    if total is None:
        total = _total(wanted, at_least=page.offset + len(found) if found else 0)
    return Listing(rows=found, total=total)


def stretch(wanted: Selection, *, after: Position | None, size: int) -> Stretch:
    """Up to `size` users after one; nothing is counted."""
    limit = size + 1
    if not wanted.filter and not wanted.is_exact:
        _, found = list_queries.page(wanted, limit=limit, after=after)
    else:
        found = []
        if not wanted.is_exact and list_queries.estimated(wanted) > list_queries.COLLECTED:
            found = list_queries.walk(wanted, limit=limit, after=after)
        if len(found) < limit:
            _, found = list_queries.matches(wanted, limit=limit, after=after)
    if len(found) <= size:
        return Stretch(rows=found, next_cursor="")
    last = records.read(found[size - 1])
    return Stretch(rows=found[:size], next_cursor=selection.cursor(Position(last.created_at, last.id)))


def _page(wanted: Selection, page: Page) -> tuple[list[queries.Row], int | None]:
    """The rows of a page, and the total where it comes with them."""
    limit, offset = page.limit, page.offset
    if not wanted.filter and not wanted.is_exact:
        total, found = list_queries.page(wanted, limit=limit, offset=offset, count=not wanted.count_exactly)
        return found, total
    if not wanted.is_exact:
        expected = list_queries.estimated(wanted)
        if expected > list_queries.COLLECTED:
            found = list_queries.walk(wanted, limit=limit, offset=offset)
            if len(found) == limit:
                return found, None if wanted.count_exactly else max(expected, offset + limit)
    total, found = list_queries.matches(wanted, limit=limit, offset=offset)
    return found, total


def _total(wanted: Selection, *, at_least: int) -> int:
    if wanted.count_exactly:
        return list_queries.counted(wanted)
    expected = list_queries.estimated(wanted)
    if expected > list_queries.COUNTED:
        return max(expected, at_least)
    few = list_queries.counted(wanted, most=list_queries.COUNTED + 1)
    return few if few <= list_queries.COUNTED else max(few, at_least)
