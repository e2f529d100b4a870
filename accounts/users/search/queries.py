"""The list of users as hand-written SQL: which rows first, from indexes alone where that is possible, then those rows.

A page comes with identities and factors in one statement. What a filter finds is either collected whole and sorted,
when little is expected, or looked for on a walk from the newest user on, which ends after a bounded number of users.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from accounts.users.queries import Row, factors_column
from accounts.users.search import conditions
from accounts.users.search.conditions import COUNTED, Condition
from accounts.users.search.filters import Position, Selection
from authsvc.db.sql import namespaced, rows

_WALK = 25_000
_WALK_FOR_EACH = 10

_USER = (
    "created_at id::text aud role email phone raw_app_meta_data::text raw_user_meta_data::text updated_at is_anonymous"
    " email_change phone_change email_confirmed_at invited_at phone_confirmed_at confirmation_sent_at confirmed_at"
    " recovery_sent_at email_change_sent_at phone_change_sent_at reauthentication_sent_at last_sign_in_at banned_until"
    " deleted_at"
).split()
_IDENTITY = "id::text provider_id identity_data::text provider created_at updated_at last_sign_in_at email".split()
_NEVER = datetime.max.replace(tzinfo=UTC)
_USER_WIDTH = len(_USER) + 1
_WIDTH = _USER_WIDTH + len(_IDENTITY)


class Found(NamedTuple):
    """A user of a page, as read."""

    user: Row
    """Begins with time of creation and id, as text, and ends in the factors as JSON text."""
    identities: list[Row]


class Page(NamedTuple):
    found: list[Found]
    total: int | None
    """How many there are in all; None: not counted, or the page is empty."""
    statistics: float | None = None
    """How large the planner takes the table for; None: not asked, or the page is empty."""


def page(
    selection: Selection, *, limit: int, offset: int = 0, after: Position | None = None, count: bool = False
) -> Page:
    """The users of an audience by age, and with `count` how many there are, unless they are many.

    A table that the statistics call large is not counted at all.
    """
    condition, values = _begins_after("u", selection, after)
    number, statistics = "NULL", "NULL::real"
    if count:
        statistics = f"(SELECT reltuples FROM pg_class WHERE oid = '{conditions.users()}'::regclass)"
        number = (
            f"CASE WHEN {statistics} > {2 * COUNTED} THEN NULL ELSE"
            f" (SELECT count(*) FROM (SELECT FROM {conditions.users()} c WHERE c.aud = %s LIMIT {COUNTED + 1}) few) END"
        )
    users = f"{conditions.users()} u WHERE u.aud = %s{condition} ORDER BY {_order('u', selection)} LIMIT {limit:d}"
    if offset:
        # Those before the page are passed over in the index alone.
        shown = f"(SELECT u.id, u.created_at FROM {users} OFFSET %s) p JOIN {conditions.users()} u ON u.id = p.id"
    else:
        shown = f"(SELECT * FROM {users}) u"
    read = rows(
        f"SELECT {_columns()}, {number}, {statistics} FROM {shown} {_identities()}"
        f" ORDER BY {_order('p' if offset else 'u', selection)}",
        [*([selection.aud] if count else []), selection.aud, *values, *_offset_value(offset)],
    )
    if not read:
        return Page([], None)
    total, size = read[0][_WIDTH:]
    return Page(_grouped(read), total if total is None or total <= COUNTED else None, size)


def matches(
    selection: Selection, *, limit: int, offset: int = 0, after: Position | None = None, within_reach: bool = False
) -> Page:
    """Those of a page, and how many match in all: all that match are collected before they are sorted.

    With `within_reach` only those are that can be found without reading the whole of a large table.
    """
    chosen, values = conditions.within_reach(selection) if within_reach else conditions.query(selection)
    begin, begin_values = _begins_after("m", selection, after)
    sql = f"""
        WITH matches AS MATERIALIZED ({chosen}),
             page AS (SELECT m.id, m.created_at FROM matches m WHERE true{begin}
                      ORDER BY {_order("m", selection)} LIMIT {limit:d}{_offset(offset)})
        SELECT {_columns()}, c.number
          FROM (SELECT count(*) AS number FROM matches) c
          LEFT JOIN page p ON true LEFT JOIN {conditions.users()} u ON u.id = p.id {_identities()}
         ORDER BY {_order("p", selection)}
    """
    read = rows(sql, [*values, *begin_values, *_offset_value(offset)])
    # An empty page still says how many there are.
    return Page(_grouped(each for each in read if each[1] is not None), int(read[0][_WIDTH]))


def walk(selection: Selection, *, limit: int, offset: int = 0, after: Position | None = None) -> list[Found]:
    """The users of a page of a filter that fits many: looked for among the first by age, and not for ever."""
    begin, begin_values = _begins_after("u", selection, after)
    condition, values = conditions.fits("w", selection)
    bound = _WALK + _WALK_FOR_EACH * min(offset + limit, 10 * _WALK)
    return _grouped(
        rows(
            f"SELECT {_columns()} FROM (SELECT w.id, w.created_at FROM ("
            f"SELECT u.id, u.created_at, u.email, u.raw_user_meta_data FROM {conditions.users()} u"
            f" WHERE u.aud = %s{begin} ORDER BY {_order('u', selection)} LIMIT {bound}) w WHERE {condition}"
            f" ORDER BY {_order('w', selection)} LIMIT {limit:d}{_offset(offset)}) p"
            f" JOIN {conditions.users()} u ON u.id = p.id {_identities()} ORDER BY {_order('p', selection)}",
            [selection.aud, *begin_values, *values, *_offset_value(offset)],
        )
    )


@cache
def _columns() -> str:
    user = [f"u.{name}" for name in _USER]
    return ", ".join([*user, factors_column(), *(f"i.{name}" for name in _IDENTITY)])


@cache
def _identities() -> str:
    return f"LEFT JOIN {namespaced('identities')} i ON i.user_id = u.id"


def _grouped(read: Iterable[Row]) -> list[Found]:
    """One entry for each user of rows that have one for each identity; identities by age."""
    found: list[Found] = []
    for each in read:
        if not found or found[-1].user[1] != each[1]:
            found.append(Found(each[:_USER_WIDTH], []))
        if each[_USER_WIDTH] is not None:
            found[-1].identities.append(each[_USER_WIDTH:_WIDTH])
    for one in found:
        if len(one.identities) > 1:
            one.identities.sort(key=_age)
    return found


def _age(identity: Row) -> tuple[datetime, str]:
    return identity[4] or _NEVER, identity[0]


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
    if after.created_at is None:
        # NULL is sorted as the latest.
        others = f"{table}.created_at IS NULL AND" if selection.is_ascending else f"{table}.created_at IS NOT NULL OR"
        return f" AND ({others} {table}.id {compared} %s)", [after.id]
    return f" AND ({table}.created_at, {table}.id) {compared} (%s, %s)", [after.created_at, after.id]
