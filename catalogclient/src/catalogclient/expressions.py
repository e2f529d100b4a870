"""Builders for scan filters as JSON documents (OpenAPI, `Expression`).

`style="legacy"`, the default, refers to a column by `term`, which Java servers up to release 1.11 require.
`style="current"` is the form of the newer OpenAPI document. Values are strings, numbers and booleans. Write dates as
`2026-01-31`, decimals as strings, and binary values as hexadecimal digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from catalogclient import _guards
from catalogclient.types import Expression

Style: TypeAlias = Literal["legacy", "current"]
Value: TypeAlias = bool | int | float | str


def and_(left: Expression, right: Expression, *more: Expression) -> Expression:
    """Combine filters: all must match."""
    return _joined("and", (left, right, *more))


def or_(left: Expression, right: Expression, *more: Expression) -> Expression:
    """Combine filters: at least one must match."""
    return _joined("or", (left, right, *more))


def not_(child: Expression) -> Expression:
    """Negate a filter: `child` must not match."""
    return {"type": "not", "child": child}


def is_null(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is null."""
    return _unary("is-null", column, style)


def not_null(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is not null."""
    return _unary("not-null", column, style)


def is_nan(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column, of type float or double, is NaN."""
    return _unary("is-nan", column, style)


def not_nan(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column, of type float or double, is not NaN."""
    return _unary("not-nan", column, style)


def lt(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is less than `value`."""
    return _compared("lt", column, value, style)


def lt_eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is less than or equal to `value`."""
    return _compared("lt-eq", column, value, style)


def gt(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is greater than `value`."""
    return _compared("gt", column, value, style)


def gt_eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is greater than or equal to `value`."""
    return _compared("gt-eq", column, value, style)


def eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column equals `value`."""
    return _compared("eq", column, value, style)


def not_eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column does not equal `value`."""
    return _compared("not-eq", column, value, style)


def starts_with(column: str, value: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the string column begins with `value`."""
    return _compared("starts-with", column, value, style)


def not_starts_with(column: str, value: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the string column does not begin with `value`."""
    return _compared("not-starts-with", column, value, style)


def is_in(column: str, values: Iterable[Value], *, style: Style = "legacy") -> Expression:
    """Match rows in which the column equals one of `values`."""
    return _listed("in", column, values, style)


def not_in(column: str, values: Iterable[Value], *, style: Style = "legacy") -> Expression:
    """Match rows in which the column equals none of `values`."""
    return _listed("not-in", column, values, style)


def _reference(column: str) -> dict[str, Any]:
    return {"type": "reference", "name": column}


def _joined(kind: str, parts: tuple[Expression, ...]) -> Expression:
    found = parts[0]
    for part in parts[1:]:
        found = {"type": kind, "left": found, "right": part}
    return found


def _unary(kind: str, column: str, style: Style) -> Expression:
    return {"type": kind, "term": column} if style == "legacy" else {"type": kind, "child": _reference(column)}


def _compared(kind: str, column: str, value: Value, style: Style) -> Expression:
    if style == "legacy":
        return {"type": kind, "term": column, "value": value}
    return {"type": kind, "left": _reference(column), "right": value}


def _listed(kind: str, column: str, values: Iterable[Value], style: Style) -> Expression:
    if style == "legacy":
        return {"type": kind, "term": column, "values": list(values)}
    return {"type": kind, "child": _reference(column), "values": list(values)}


_guards.guard_public_functions(globals())
