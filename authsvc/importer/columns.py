"""How a column comes from a row of the source: rules that turn its name into an SQL expression over that row.

The row is called `x` in every expression. A rule is given the columns that the source has: older ones lack some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Columns = Mapping[str, str]
"""Column → its type, as the source has them."""
Rule = Callable[[str, Columns], str]


def kept(name: str, there: Columns) -> str:
    """As it is; NULL where the source has no such column."""
    return f"x.{name}" if name in there else "NULL"


def filled(name: str, there: Columns) -> str:
    """Text that is never NULL."""
    return f"coalesce(x.{name}, '')" if name in there else "''"


def as_text(name: str, there: Columns) -> str:
    """The word of an enumeration."""
    return f"x.{name}::text" if name in there else "NULL"


def address(name: str, there: Columns) -> str:
    """An internet address without a netmask."""
    return f"host(x.{name})" if name in there else "NULL"


def utc(name: str, there: Columns) -> str:
    """A moment; one without a zone is what a clock in UTC showed."""
    if there.get(name, "").startswith("timestamp") and "without time zone" in there[name]:
        return f"x.{name} AT TIME ZONE 'UTC'"
    return kept(name, there)


def number(name: str, there: Columns) -> str:
    """A phone number without its plus sign and blanks; NULL when there is none."""
    return f"nullif(replace(ltrim(x.{name}, '+'), ' ', ''), '')" if name in there else "NULL"


def filled_number(name: str, there: Columns) -> str:
    return f"coalesce({number(name, there)}, '')"


def metadata(name: str, there: Columns) -> str:
    """A JSON object; NULL, which reads as an empty one, for JSON's own null."""
    return f"nullif(x.{name}::jsonb, 'null')" if name in there else "NULL"


def moment(other: str) -> Rule:
    """A time that is never NULL: in its place the other one of the row, or now."""
    return lambda name, there: f"coalesce({', '.join([*(f'x.{n}' for n in (name, other) if n in there), 'now()'])})"


def or_else(missing: str) -> Rule:
    """As it is; `missing`, an expression, where there is none."""
    return lambda name, there: f"coalesce(x.{name}, {missing})" if name in there else missing


def expression(sql: str) -> Rule:
    """This, whatever the source has."""
    return lambda _name, _there: sql


def made_id(*parts: str) -> str:
    """A UUID (RFC 9562 §5.8) that is the same in every pass: made from text expressions that identify the row."""
    digest = f"encode(sha256(convert_to(concat_ws('|', {', '.join(parts)}), 'UTF8')), 'hex')"
    return f"overlay(overlay(left({digest}, 32) placing '8' from 13) placing '8' from 17)::uuid"
