"""Finding users: by page or by cursor, by part of their address or name, by exactly what they are known by."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from accounts import errors
from accounts.users import queries, records
from accounts.users.records import UserRecord
from accounts.users.search import conditions, filters, paging
from accounts.users.search import queries as list_queries
from accounts.users.search.filters import Position, Selection
from accounts.users.search.paging import Page
from accounts.users.search.queries import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page."""

    found: list[Found]
    total: int
    """Exact up to 10,000, with a filter 3,000; beyond that what the planner expects, unless asked for exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A page by cursor; `next_cursor` is empty on the last one."""

    found: list[Found]
    next_cursor: str


def find(user_id: UUID) -> UserRecord:
    """A user by id, of whatever audience, soft-deleted ones too. Raises UserNotFound."""
    row = queries.by_id(user_id)
    if row is None:
        raise errors.UserNotFound
    return records.read(row)


def page(wanted: Selection, page: Page) -> Listing:
    """A page of the users that are wanted: one statement or two, or three where the statistics are old."""
    read = _page(wanted, page)
    shown = len(read.found)
    total = read.total
    if total is None:
        total = paging.total_if_seen(page, shown=shown)
    if total is None:
        total = _total(wanted, at_least=page.offset + shown if shown else 0, statistics=read.statistics)
    return Listing(found=read.found, total=total)


def stretch(wanted: Selection, *, after: Position | None, size: int) -> Stretch:
    """Up to `size` users after one; nothing is counted."""
    read = list_queries.page if wanted.is_unconditional else _found
    found = read(wanted, limit=size + 1, after=after).found
    if wanted.is_ascending and after and after.created_at and len(found) <= size:
        # Nothing compares with NULL: those without a time come last.
        found += read(wanted, limit=size + 1 - len(found), after=Position(None, UUID(int=0))).found
    if len(found) <= size:
        return Stretch(found=found, next_cursor="")
    created_at, last = found[size - 1].user[:2]
    return Stretch(found=found[:size], next_cursor=filters.cursor(Position(created_at, UUID(last))))


def _page(wanted: Selection, page: Page) -> list_queries.Page:
    """A page, with the total where it is as cheap to tell."""
    if wanted.is_unconditional:
        return list_queries.page(wanted, limit=page.limit, offset=page.offset, count=not wanted.count_exactly)
    return _found(wanted, limit=page.limit, offset=page.offset)


def _found(wanted: Selection, *, limit: int, offset: int = 0, after: Position | None = None) -> list_queries.Page:
    """A page of those who match."""
    if wanted.is_exact:
        return list_queries.matches(wanted, limit=limit, offset=offset, after=after)
    # The conditions alone say which set is meant, so that all pages of a search are of the same.
    within_reach = conditions.is_out_of_reach(wanted)
    expected = 0 if within_reach else conditions.estimated(wanted)
    if expected > conditions.COLLECTED:
        found = list_queries.walk(wanted, limit=limit, offset=offset, after=after)
        if len(found) == limit:
            return list_queries.Page(found, None if wanted.count_exactly else max(expected, offset + limit))
    return list_queries.matches(wanted, limit=limit, offset=offset, after=after, within_reach=within_reach)


def _total(wanted: Selection, *, at_least: int, statistics: float | None) -> int:
    if wanted.count_exactly:
        return conditions.counted(wanted)
    known = statistics is not None
    expected = conditions.expected_in_all(wanted.aud, statistics) if known else conditions.estimated(wanted)
    if expected > conditions.COUNTED:
        return max(expected, at_least)
    few = conditions.counted(wanted, most=conditions.COUNTED + 1)
    return few if few <= conditions.COUNTED else max(few, at_least)
