"""Rules that turn a column name into an SQL expression over a source row.

The row is called `x` in every expression. A rule gets the columns of the source table, because older sources lack some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Columns = Mapping[str, str]
"""Column → type, as in the source."""
Rule = Callable[[str, Columns], str]


def unchanged(name: str, columns: Columns) -> str:
    """The value as it is; NULL if the source lacks the column."""
    return f"x.{name}" if name in columns else "NULL"


def text_or_empty(name: str, columns: Columns) -> str:
    """Text that is never NULL."""
    return f"coalesce(x.{name}, '')" if name in columns else "''"


def enum_as_text(name: str, columns: Columns) -> str:
    return f"x.{name}::text" if name in columns else "NULL"


def ip_address(name: str, columns: Columns) -> str:
    """An IP address without a netmask."""
    return f"host(x.{name})" if name in columns else "NULL"


def utc(name: str, columns: Columns) -> str:
    """A time; one without a time zone is in UTC."""
    if columns.get(name, "").startswith("timestamp") and "without time zone" in columns[name]:
        return f"x.{name} AT TIME ZONE 'UTC'"
    return unchanged(name, columns)


def phone(name: str, columns: Columns) -> str:
    """A phone number without plus sign and spaces; NULL if empty."""
    return f"nullif(replace(ltrim(x.{name}, '+'), ' ', ''), '')" if name in columns else "NULL"


def phone_or_empty(name: str, columns: Columns) -> str:
    return f"coalesce({phone(name, columns)}, '')"


def json_object(name: str, columns: Columns) -> str:
    """A JSON object; NULL, which reads as an empty object, for JSON's null."""
    return f"nullif(x.{name}::jsonb, 'null')" if name in columns else "NULL"


def time_or(fallback: str) -> Rule:
    """A time that is never NULL: it falls back to another column of the row, then to now."""

    def rule(name: str, columns: Columns) -> str:
        return f"coalesce({', '.join([*(f'x.{n}' for n in (name, fallback) if n in columns), 'now()'])})"

    return rule


def default_to(default: str) -> Rule:
    """The value, or the expression `default` for NULL and for a missing column."""
    return lambda name, columns: f"coalesce(x.{name}, {default})" if name in columns else default


def expression(sql: str) -> Rule:
    """This expression for every source."""
    return lambda _name, _columns: sql


def derived_id(*parts: str) -> str:
    """A UUID (RFC 9562 §5.8) derived from text expressions that identify the row, the same in every run."""
    digest = f"encode(sha256(convert_to(concat_ws('|', {', '.join(parts)}), 'UTF8')), 'hex')"
    return f"overlay(overlay(left({digest}, 32) placing '8' from 13) placing '8' from 17)::uuid"
