"""Lists of users: by page or cursor, and by a complete identifier."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from accounts.users import identifiers
from accounts.users import queries as user_queries
from accounts.users.search import filters, queries
from accounts.users.search.filters import Cursor, UserFilter
from accounts.users.search.queries import ListedUser
from authsvc.api import pagination
from authsvc.api.pagination import PageRequest

_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage:
    users: list[ListedUser]
    total: int
    """Exact up to 10,000, with a filter 3,000; above that the planner's estimate, unless `count=exact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPage:
    users: list[ListedUser]
    next_cursor: str
    """`""` on the last page."""


def list_page(user_filter: UserFilter, request: PageRequest) -> UserPage:
    """A page of the users that match: one or two statements, three after the statistics have changed."""
    if user_filter.is_unconditional:
        page = queries.all_users(
            user_filter, limit=request.limit, offset=request.offset, with_total=not user_filter.count_exactly
        )
    else:
        page = _matching_page(user_filter, limit=request.limit, offset=request.offset)
    total = page.total
    if total is None:
        total = pagination.total_if_last(request, shown=len(page.users))
    if total is None:
        at_least = request.offset + len(page.users) if page.users else 0
        total = _total(user_filter, at_least=at_least, statistics=page.statistics)
    return UserPage(users=page.users, total=total)


def list_after(user_filter: UserFilter, *, after: Cursor | None, size: int) -> CursorPage:
    """Up to `size` users after one, without a total."""
    read = queries.all_users if user_filter.is_unconditional else _matching_page
    users = read(user_filter, limit=size + 1, after=after).users
    if user_filter.is_ascending and after and after.created_at and len(users) <= size:
        # Nothing compares with NULL: rows without a time come last.
        users += read(user_filter, limit=size + 1 - len(users), after=Cursor(None, _FIRST)).users
    if len(users) <= size:
        return CursorPage(users=users, next_cursor="")
    last = users[size - 1]
    return CursorPage(users=users[:size], next_cursor=filters.encode_cursor(Cursor(last.created_at, UUID(last.id))))


def find_exact(text: str, *, audience: str) -> list[UUID]:
    """Ids of the users with this id, complete address or complete phone number, in every audience, by unique indexes.

    Users of SSO are found by address within `audience`.
    """
    text = text.strip()
    if user_id := identifiers.uuid(text):
        return [user_id] if user_queries.get(user_id) else []
    if "@" in text:
        address = identifiers.lower_email(text)
        user = user_queries.find_by("email", address, aud=None)
        of_sso = list_after(UserFilter(aud=audience, email=address), after=None, size=10).users
        return list(dict.fromkeys([*([user.id] if user else []), *(UUID(sso_user.id) for sso_user in of_sso)]))
    number = identifiers.bare_phone(text)
    user = user_queries.find_by("phone", number, aud=None) if number.isascii() and number.isdigit() else None
    return [user.id] if user else []


def _matching_page(
    user_filter: UserFilter, *, limit: int, offset: int = 0, after: Cursor | None = None
) -> queries.FoundUsers:
    if user_filter.is_exact:
        return queries.collect(user_filter, limit=limit, offset=offset, after=after)
    # Decided by the filter alone, so that all pages of a search show parts of the same set.
    is_restricted = queries.is_too_expensive(user_filter)
    expected = 0 if is_restricted else queries.estimate(user_filter)
    if expected > queries.COLLECT_LIMIT:
        users = queries.scan(user_filter, limit=limit, offset=offset, after=after)
        if len(users) == limit:
            return queries.FoundUsers(users, None if user_filter.count_exactly else max(expected, offset + limit))
    return queries.collect(user_filter, limit=limit, offset=offset, after=after, is_restricted=is_restricted)


def _total(user_filter: UserFilter, *, at_least: int, statistics: float | None) -> int:
    if user_filter.count_exactly:
        return queries.count(user_filter)
    expected = (
        queries.estimate(user_filter) if statistics is None else queries.estimate_audience(user_filter.aud, statistics)
    )
    if expected > queries.EXACT_COUNT_LIMIT:
        return max(expected, at_least)
    counted = queries.count(user_filter, limit=queries.EXACT_COUNT_LIMIT + 1)
    return counted if counted <= queries.EXACT_COUNT_LIMIT else max(counted, at_least)
