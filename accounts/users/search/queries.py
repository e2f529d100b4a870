"""The list of users as hand-written SQL: ids of a page first, from indexes alone where possible, then the columns.

Each page comes with identities and factors in one statement. A filter that is expected to match few users collects and
sorts all matches; one that is expected to match many scans from the newest user on and stops after a bounded number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple

from accounts.users.records import USER_FIELDS, Row, factors_column
from accounts.users.search.filters import Cursor, UserFilter
from authsvc.db import sql as db
from authsvc.db.sql import fetch_row, fetch_rows, json_object, namespaced

EXACT_COUNT_LIMIT = 10_000
"""Counts up to this number are exact."""
COLLECT_LIMIT = 3_000
"""A filter that is expected to match more users is searched by a scan, and its total is the planner's estimate."""
LARGE_TABLE = 50_000
"""In a table with more users, a filter that no index serves covers the newest users only, unless `count=exact`."""
NEWEST = 5_000
"""The number of users that such a filter covers."""
_EXPENSIVE = 10_000
"""Planner cost of a search that the indexes do not support: about 0.1 s."""
_SCAN_LIMIT = 25_000
_SCAN_LIMIT_PER_ROW = 10

Condition = tuple[str, list[Any]]

_INDEXED = re.compile(r"[A-Za-z0-9]{3}")
_INDEXED_WITH_ALL_LETTERS = re.compile(r"[^\W_]{3}")
# The first two letters of a text form a trigram together with its beginning.
_INDEXED_PREFIX = re.compile(r"[^\W_]{2}")

# A struct takes members without a default first. Identities come as rows of their own.
_SHOWN = [field for field in USER_FIELDS if field.member and field.name != "identities"]
USER_COLUMNS = [
    *(field for field in _SHOWN if not field.is_optional),
    *(field for field in _SHOWN if field.is_optional),
]
"""The fields of a listed user, in the order of the select list; the id as text, the factors as JSON text."""
_IDENTITY = (
    "i.id::text",
    "i.provider_id",
    json_object("i.identity_data"),
    *("i.provider", "i.created_at", "i.updated_at", "i.last_sign_in_at", "i.email"),
)
_NEVER = datetime.max.replace(tzinfo=UTC)
_USER_WIDTH = len(USER_COLUMNS)
_WIDTH = _USER_WIDTH + len(_IDENTITY)
_ID, _CREATED_AT = (
    next(i for i, field in enumerate(USER_COLUMNS) if field.name == name) for name in ("id", "created_at")
)


class ListedUser(NamedTuple):
    """A user of a page, as read."""

    values: Row
    """By the fields in `USER_COLUMNS`."""
    identities: list[Row]

    @property
    def id(self) -> str:
        return str(self.values[_ID])

    @property
    def created_at(self) -> datetime | None:
        moment: datetime | None = self.values[_CREATED_AT]
        return moment


class FoundUsers(NamedTuple):
    users: list[ListedUser]
    total: int | None
    """Number of users on all pages; None when it was not counted, or the page is empty."""
    statistics: float | None = None
    """The planner's estimate of the size of the table; None when it was not read, or the page is empty."""


def all_users(
    user_filter: UserFilter, *, limit: int, offset: int = 0, after: Cursor | None = None, with_total: bool = False
) -> FoundUsers:
    """A page of an audience, by age. One statement.

    With `with_total` it counts the users of the audience, unless the statistics call the table large.
    """
    condition, values = _begins_after("u", user_filter, after)
    total, statistics = "NULL", "NULL::real"
    if with_total:
        statistics = f"(SELECT reltuples FROM pg_class WHERE oid = '{_users()}'::regclass)"
        total = (
            f"CASE WHEN {statistics} > {2 * EXACT_COUNT_LIMIT} THEN NULL ELSE"
            f" (SELECT count(*) FROM (SELECT FROM {_users()} c WHERE c.aud = %s LIMIT {EXACT_COUNT_LIMIT + 1}) few) END"
        )
    page = f"{_users()} u WHERE u.aud = %s{condition} ORDER BY {_order('u', user_filter)} LIMIT {limit:d}"
    if offset:
        # An index-only scan skips the users before the page.
        page = f"(SELECT u.id, u.created_at FROM {page} OFFSET %s) p JOIN {_users()} u ON u.id = p.id"
    else:
        page = f"(SELECT * FROM {page}) u"
    read = fetch_rows(
        f"SELECT {_columns()}, {total}, {statistics} FROM {page} {_join_identities()}"
        f" ORDER BY {_order('p' if offset else 'u', user_filter)}",
        [*([user_filter.aud] if with_total else []), user_filter.aud, *values, *_offset_value(offset)],
    )
    if not read:
        return FoundUsers([], None)
    counted, size = read[0][_WIDTH:]
    return FoundUsers(_group(read), counted if counted is None or counted <= EXACT_COUNT_LIMIT else None, size)


def collect(
    user_filter: UserFilter, *, limit: int, offset: int = 0, after: Cursor | None = None, is_restricted: bool = False
) -> FoundUsers:
    """A page of the matching users with their number: collects all matches, then sorts them. One statement.

    With `is_restricted` a large table is not read as a whole; see `is_too_expensive`.
    """
    match, values = restricted_match_sql(user_filter) if is_restricted else match_sql(user_filter)
    begin, begin_values = _begins_after("m", user_filter, after)
    sql = f"""
        WITH matches AS MATERIALIZED ({match}),
             page AS (SELECT m.id, m.created_at FROM matches m WHERE true{begin}
                      ORDER BY {_order("m", user_filter)} LIMIT {limit:d}{_offset(offset)})
        SELECT {_columns()}, c.number
          FROM (SELECT count(*) AS number FROM matches) c
          LEFT JOIN page p ON true LEFT JOIN {_users()} u ON u.id = p.id {_join_identities()}
         ORDER BY {_order("p", user_filter)}
    """
    read = fetch_rows(sql, [*values, *begin_values, *_offset_value(offset)])
    # An empty page is one row without a user.
    return FoundUsers(_group(row for row in read if row[_ID] is not None), int(read[0][_WIDTH]))


def scan(user_filter: UserFilter, *, limit: int, offset: int = 0, after: Cursor | None = None) -> list[ListedUser]:
    """A page of the matching users among a bounded number of users by age. One statement."""
    begin, begin_values = _begins_after("u", user_filter, after)
    condition, values = _matches_text("w", user_filter)
    bound = _SCAN_LIMIT + _SCAN_LIMIT_PER_ROW * min(offset + limit, 10 * _SCAN_LIMIT)
    return _group(
        fetch_rows(
            f"SELECT {_columns()} FROM (SELECT w.id, w.created_at FROM ("
            f"SELECT u.id, u.created_at, u.email, u.raw_user_meta_data FROM {_users()} u"
            f" WHERE u.aud = %s{begin} ORDER BY {_order('u', user_filter)} LIMIT {bound}) w WHERE {condition}"
            f" ORDER BY {_order('w', user_filter)} LIMIT {limit:d}{_offset(offset)}) p"
            f" JOIN {_users()} u ON u.id = p.id {_join_identities()} ORDER BY {_order('p', user_filter)}",
            [user_filter.aud, *begin_values, *values, *_offset_value(offset)],
        )
    )


@lru_cache(maxsize=32)
def estimate_audience(aud: str, _statistics: float) -> int:
    """The number of users that the planner expects in an audience, cached until the statistics of the table change."""
    return estimate(UserFilter(aud=aud))


def estimate(user_filter: UserFilter) -> int:
    """The number of users that the planner expects to match."""
    match, values = match_sql(user_filter)
    return db.explain(match, values).rows


def count(user_filter: UserFilter, *, limit: int | None = None) -> int:
    """The number of users that match, at most `limit`."""
    match, values = match_sql(user_filter)
    bound = "" if limit is None else f" LIMIT {limit:d}"
    row = fetch_row(f"SELECT count(*) FROM ({match}{bound}) c", values)
    return int(row[0]) if row else 0


def is_too_expensive(user_filter: UserFilter) -> bool:
    """True if the trigram indexes cannot serve the filter and the table is too large to be read for it."""
    if user_filter.count_exactly or is_indexed(user_filter.text):
        return False
    return is_large_table()


def is_large_table() -> bool:
    """True if the table is too large to be read as a whole for a search."""
    row = fetch_row(f"SELECT reltuples > %s FROM pg_class WHERE oid = '{_users()}'::regclass", [LARGE_TABLE])
    return bool(row and row[0])


@cache
def indexes_all_letters() -> bool:
    """True if trigrams contain letters beyond ASCII, which the locale of the database decides."""
    row = fetch_row("SELECT datctype NOT IN ('C', 'POSIX') FROM pg_database WHERE datname = current_database()", [])
    return bool(row and row[0])


def match_sql(user_filter: UserFilter) -> Condition:
    """The query for id and age of the users that match, and its values."""
    conditions = ["u.aud = %s"]
    values: list[Any] = [user_filter.aud]
    if user_filter.id is not None:
        conditions.append("u.id = %s")
        values.append(user_filter.id)
    if user_filter.phone:
        conditions.append("u.phone = %s")
        values.append(user_filter.phone)
    matches_text, text_values = _matches_text("u", user_filter)
    condition = " AND ".join([*conditions, *([matches_text] if matches_text else [])])
    values += text_values
    select = "SELECT u.id, u.created_at FROM"
    if not user_filter.email:
        return f"{select} {_users()} u WHERE {condition}", values
    # The unique index of addresses leaves out users of SSO, whose identities have an index of their own.
    sql = (
        f"{select} {_users()} u WHERE u.email = %s AND NOT u.is_sso_user AND {condition} UNION ALL"
        f" {select} {_users()} u WHERE u.id IN (SELECT user_id FROM {namespaced('identities')} WHERE email = %s)"
        f" AND u.email = %s AND u.is_sso_user AND {condition}"
    )
    return sql, [user_filter.email, *values, user_filter.email, user_filter.email, *values]


def restricted_match_sql(user_filter: UserFilter) -> Condition:
    """The query for matches among the newest users, and for all whose address or name begins with the text."""
    fits, values = _matches_text("w", user_filter)
    sql = (
        f"SELECT w.id, w.created_at FROM (SELECT u.id, u.created_at, u.email, u.raw_user_meta_data FROM {_users()} u"
        f" WHERE u.aud = %s ORDER BY u.created_at DESC, u.id DESC LIMIT {NEWEST}) w WHERE {fits}"
    )
    values = [user_filter.aud, *values]
    if _INDEXED_PREFIX.match(user_filter.text):
        has_prefix, prefix_values = _like("u", f"{user_filter.text}%")
        prefixed = f"SELECT u.id, u.created_at FROM {_users()} u WHERE u.aud = %s AND {has_prefix}"
        prefix_values = [user_filter.aud, *prefix_values]
        if db.explain(prefixed, prefix_values).cost < _EXPENSIVE:
            return f"{sql} UNION {prefixed}", [*values, *prefix_values]
    return sql, values


def is_indexed(text: str) -> bool:
    """True if a trigram index finds the text."""
    if _INDEXED.search(text):
        return True
    return bool(_INDEXED_WITH_ALL_LETTERS.search(text)) and indexes_all_letters()


def _matches_text(table: str, user_filter: UserFilter) -> Condition:
    """The condition on the users `table` that the text of the filter sets; empty without a text."""
    return _like(table, f"%{user_filter.text}%") if user_filter.text else ("", [])


def _like(table: str, pattern: str) -> Condition:
    # The expressions of the trigram indexes, so that the planner uses them.
    return f"({table}.email LIKE %s OR ({table}.raw_user_meta_data ->> 'full_name') ILIKE %s)", [pattern, pattern]


@cache
def _users() -> str:
    return namespaced("users")


@cache
def _columns() -> str:
    special = {"id": "u.id::text", "factors": factors_column()}
    user = [special.get(field.name, field.sql) for field in USER_COLUMNS]
    return ", ".join([*user, *_IDENTITY])


@cache
def _join_identities() -> str:
    return f"LEFT JOIN {namespaced('identities')} i ON i.user_id = u.id"


def _group(read: Iterable[Row]) -> list[ListedUser]:
    """One entry per user, from rows of which there is one per identity; identities by age."""
    users: list[ListedUser] = []
    last_id = None
    for values in read:
        if values[_ID] != last_id:
            last_id = values[_ID]
            users.append(ListedUser(values[:_USER_WIDTH], []))
        if values[_USER_WIDTH] is not None:
            users[-1].identities.append(values[_USER_WIDTH:_WIDTH])
    for user in users:
        if len(user.identities) > 1:
            user.identities.sort(key=_age)
    return users


def _age(identity: Row) -> tuple[datetime, str, str]:
    return identity[4] or _NEVER, identity[3], identity[0]


def _order(table: str, user_filter: UserFilter) -> str:
    direction = "ASC" if user_filter.is_ascending else "DESC"
    return f"{table}.created_at {direction}, {table}.id {direction}"


def _offset(offset: int) -> str:
    return " OFFSET %s" if offset else ""


def _offset_value(offset: int) -> list[Any]:
    return [offset] if offset else []


def _begins_after(table: str, user_filter: UserFilter, after: Cursor | None) -> Condition:
    if after is None:
        return "", []
    operator = ">" if user_filter.is_ascending else "<"
    if after.created_at is None:
        # PostgreSQL sorts NULL as the latest.
        others = f"{table}.created_at IS NULL AND" if user_filter.is_ascending else f"{table}.created_at IS NOT NULL OR"
        return f" AND ({others} {table}.id {operator} %s)", [after.id]
    return f" AND ({table}.created_at, {table}.id) {operator} (%s, %s)", [after.created_at, after.id]
