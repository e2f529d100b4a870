"""Who is meant by the conditions of a list, as SQL, and how many the planner expects them to be."""

# ruff: noqa: S608  (names of our own and numbers; every value is a parameter)

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from accounts.users.search.filters import Selection
from authsvc.db import sql as db
from authsvc.db.sql import namespaced, row

COUNTED = 10_000
"""Up to so many rows a count is exact."""
COLLECTED = 3_000
"""Of a filter that is expected to fit more, a page is looked for by age; its count is what was expected."""
LARGE = 50_000
"""What can be found in no index is not looked for among more users than that, unless all are to be counted."""
NEWEST = 5_000
_DEAR = 10_000
"""Units of the planner for what indexes do not help with: about a tenth of a second."""

Condition = tuple[str, list[Any]]

_INDEXED = re.compile(r"[A-Za-z0-9]{3}")
_INDEXED_IF_LETTERS_ARE_KNOWN = re.compile(r"[^\W_]{3}")
# Two letters at the beginning are known to the indexes, with the beginning as the third.
_INDEXED_AT_BEGINNING = re.compile(r"[^\W_]{2}")


@lru_cache(maxsize=32)
def expected_in_all(aud: str, _statistics: float) -> int:
    """How many users the planner expects in an audience, asked anew when the statistics of the table have changed."""
    return estimated(Selection(aud=aud))


def estimated(selection: Selection) -> int:
    """How many users the planner expects to match."""
    chosen, values = query(selection)
    return db.planned(chosen, values).rows


def counted(selection: Selection, *, most: int | None = None) -> int:
    """How many users match, or `most` when there are as many or more."""
    chosen, values = query(selection)
    limit = "" if most is None else f" LIMIT {most:d}"
    found = row(f"SELECT count(*) FROM ({chosen}{limit}) c", values)
    return int(found[0]) if found else 0


def query(selection: Selection) -> Condition:
    """The query for id and age of those who match, and its values."""
    conditions = ["u.aud = %s"]
    values: list[Any] = [selection.aud]
    if selection.id is not None:
        conditions.append("u.id = %s")
        values.append(selection.id)
    if selection.phone:
        conditions.append("u.phone = %s")
        values.append(selection.phone)
    filtered, filter_values = fits("u", selection)
    condition = " AND ".join([*conditions, *([filtered] if filtered else [])])
    values += filter_values
    select = "SELECT u.id, u.created_at FROM"
    if not selection.email:
        return f"{select} {users()} u WHERE {condition}", values
    # The unique index of addresses leaves out users of SSO, whose identities have an index of their own.
    sql = (
        f"{select} {users()} u WHERE u.email = %s AND NOT u.is_sso_user AND {condition} UNION ALL"
        f" {select} {users()} u WHERE u.id IN (SELECT user_id FROM {namespaced('identities')} WHERE email = %s)"
        f" AND u.email = %s AND u.is_sso_user AND {condition}"
    )
    return sql, [selection.email, *values, selection.email, selection.email, *values]


def is_out_of_reach(selection: Selection) -> bool:
    """Whether trigram indexes know nothing of the filter, and there are too many users to read them all for it."""
    if selection.count_exactly or _is_indexed(selection.filter):
        return False
    found = row(f"SELECT reltuples > %s FROM pg_class WHERE oid = '{users()}'::regclass", [LARGE])
    return bool(found and found[0])


def within_reach(selection: Selection) -> Condition:
    """Of those who match, the ones among the newest users, and all whose address or name begins with the filter."""
    fit, values = fits("w", selection)
    sql = (
        f"SELECT w.id, w.created_at FROM (SELECT u.id, u.created_at, u.email, u.raw_user_meta_data FROM {users()} u"
        f" WHERE u.aud = %s ORDER BY u.created_at DESC, u.id DESC LIMIT {NEWEST}) w WHERE {fit}"
    )
    values = [selection.aud, *values]
    if _INDEXED_AT_BEGINNING.match(selection.filter):
        begin, begin_values = _likened("u", f"{selection.filter}%")
        beginning = f"SELECT u.id, u.created_at FROM {users()} u WHERE u.aud = %s AND {begin}"
        begin_values = [selection.aud, *begin_values]
        if db.planned(beginning, begin_values).cost < _DEAR:
            return f"{sql} UNION {beginning}", [*values, *begin_values]
    return sql, values


def _is_indexed(text: str) -> bool:
    if _INDEXED.search(text):
        return True
    return bool(_INDEXED_IF_LETTERS_ARE_KNOWN.search(text)) and knows_letters()


@cache
def knows_letters() -> bool:
    """Whether trigrams have letters beyond ASCII, which is fixed when a database is made."""
    found = row("SELECT datctype NOT IN ('C', 'POSIX') FROM pg_database WHERE datname = current_database()", [])
    return bool(found and found[0])


@cache
def users() -> str:
    return namespaced("users")


def fits(table: str, selection: Selection) -> Condition:
    """What the filter asks of the users `table`; empty where there is none."""
    if not selection.filter:
        return "", []
    return _likened(table, f"%{selection.filter}%")


def _likened(table: str, pattern: str) -> Condition:
    # As the trigram indexes have it, so that they are used.
    return f"({table}.email LIKE %s OR ({table}.raw_user_meta_data ->> 'full_name') ILIKE %s)", [pattern, pattern]
