"""The list of users as hand-written SQL: which rows first, from indexes alone where that is possible, then those rows.

A page comes with identities and factors in one statement. What a filter finds is either collected whole and sorted,
when little is expected, or looked for on a walk from the newest user on, which ends after a bounded number of users.
"""

# ruff: noqa: S608  (names of our own and numbers; every value is a parameter)

from __future__ import annotations

from functools import cache
from typing import Any

from accounts.queries import USER_WIDTH, Row, user_columns
from accounts.selection import Position, Selection
from authsvc.core import db
from authsvc.core.db import namespaced, row, rows

COUNTED = 10_000
"""Up to so many rows a count is exact."""
COLLECTED = 3_000
"""Of a filter that is expected to fit more, a page is looked for by age; its count is what was expected."""
_WALK = 25_000
_WALK_FOR_EACH = 10

Condition = tuple[str, list[Any]]


def page(
    selection: Selection, *, limit: int, offset: int = 0, after: Position | None = None, count: bool = False
) -> tuple[int | None, list[Row]]:
    """The users of an audience by age, and with `count` how many there are, unless they are many or the page is empty.

    A table that the statistics call large is not counted at all.
    """
    condition, values = _begins_after("u", selection, after)
    number = (
        f"CASE WHEN (SELECT reltuples FROM pg_class WHERE oid = '{_users()}'::regclass) > {2 * COUNTED} THEN NULL ELSE"
        f" (SELECT count(*) FROM (SELECT FROM {_users()} c WHERE c.aud = %s LIMIT {COUNTED + 1}) few) END"
    )
    found = rows(
        f"SELECT {user_columns()}, {number if count else 'NULL'} FROM (SELECT u.id, u.created_at FROM {_users()} u"
        f" WHERE u.aud = %s{condition} ORDER BY {_order('u', selection)} LIMIT {limit:d}{_offset(offset)}) p"
        f" JOIN {_users()} u ON u.id = p.id ORDER BY {_order('p', selection)}",
        [*([selection.aud] if count else []), selection.aud, *values, *_offset_value(offset)],
    )
    total = found[0][USER_WIDTH] if found else None
    return (total if total is None or total <= COUNTED else None), found


def matches(
    selection: Selection, *, limit: int, offset: int = 0, after: Position | None = None
) -> tuple[int, list[Row]]:
    """How many users match in all, and those of a page: all that match are collected before they are sorted."""
    chosen, values = matching(selection)
    begin, begin_values = _begins_after("m", selection, after)
    sql = f"""
        WITH matches AS MATERIALIZED ({chosen}),
             page AS (SELECT m.id, m.created_at FROM matches m WHERE true{begin}
                      ORDER BY {_order("m", selection)} LIMIT {limit:d}{_offset(offset)})
        SELECT {user_columns()}, c.number
          FROM (SELECT count(*) AS number FROM matches) c LEFT JOIN page p ON true LEFT JOIN {_users()} u ON u.id = p.id
         ORDER BY {_order("p", selection)}
    """
    found = rows(sql, [*values, *begin_values, *_offset_value(offset)])
    # An empty page still says how many there are.
    return int(found[0][USER_WIDTH]), [each for each in found if each[0] is not None]


def walk(selection: Selection, *, limit: int, offset: int = 0, after: Position | None = None) -> list[Row]:
    """The users of a page of a filter that fits many: looked for among the first by age, and not for ever."""
    begin, begin_values = _begins_after("u", selection, after)
    condition, values = _filtered("w", selection)
    bound = _WALK + _WALK_FOR_EACH * min(offset + limit, 10 * _WALK)
    return rows(
        f"SELECT {user_columns()} FROM (SELECT w.id, w.created_at FROM ("
        f"SELECT u.id, u.created_at, u.email, u.raw_user_meta_data FROM {_users()} u WHERE u.aud = %s{begin}"
        f" ORDER BY {_order('u', selection)} LIMIT {bound}) w WHERE {condition}"
        f" ORDER BY {_order('w', selection)} LIMIT {limit:d}{_offset(offset)}) p"
        f" JOIN {_users()} u ON u.id = p.id ORDER BY {_order('p', selection)}",
        [selection.aud, *begin_values, *values, *_offset_value(offset)],
    )


def estimated(selection: Selection) -> int:
    """How many users the planner expects to match."""
    chosen, values = matching(selection)
    return db.estimated_rows(chosen, values)


def counted(selection: Selection, *, most: int | None = None) -> int:
    """How many users match, or `most` when there are as many or more."""
    chosen, values = matching(selection)
    limit = "" if most is None else f" LIMIT {most:d}"
    found = row(f"SELECT count(*) FROM ({chosen}{limit}) c", values)
    return int(found[0]) if found else 0


def matching(selection: Selection) -> Condition:
    """The query for id and age of those who match, and its values."""
    conditions = ["u.aud = %s"]
    values: list[Any] = [selection.aud]
    if selection.id is not None:
        conditions.append("u.id = %s")
        values.append(selection.id)
    if selection.phone:
        conditions.append("u.phone = %s")
        values.append(selection.phone)
    filtered, filter_values = _filtered("u", selection)
    condition = " AND ".join([*conditions, *([filtered] if filtered else [])])
    values += filter_values
    select = "SELECT u.id, u.created_at FROM"
    if not selection.email:
        return f"{select} {_users()} u WHERE {condition}", values
    # The unique index of addresses leaves out users of SSO, whose identities have an index of their own.
    sql = (
        f"{select} {_users()} u WHERE u.email = %s AND NOT u.is_sso_user AND {condition} UNION ALL"
        f" {select} {namespaced('identities')} i JOIN {_users()} u ON u.id = i.user_id"
        f" WHERE i.email = %s AND u.email = %s AND u.is_sso_user AND {condition}"
    )
    return sql, [selection.email, *values, selection.email, selection.email, *values]


@cache
def _users() -> str:
    return namespaced("users")


def _order(table: str, selection: Selection) -> str:
    direction = "ASC" if selection.is_ascending else "DESC"
    return f"{table}.created_at {direction}, {table}.id {direction}"


def _offset(offset: int) -> str:
    return " OFFSET %s" if offset else ""


def _offset_value(offset: int) -> list[Any]:
    return [offset] if offset else []


def _begins_after(table: str, selection: Selection, after: Position | None) -> Condition:
    if after is None:
        return "", []
    compared = ">" if selection.is_ascending else "<"
    return f" AND ({table}.created_at, {table}.id) {compared} (%s, %s)", [after.created_at, after.id]


def _filtered(table: str, selection: Selection) -> Condition:
    if not selection.filter:
        return "", []
    pattern = f"%{selection.filter}%"
    # As the trigram indexes have it, so that they are used.
    return f"({table}.email LIKE %s OR ({table}.raw_user_meta_data ->> 'full_name') ILIKE %s)", [pattern, pattern]
