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
    return _build_logical("and", (left, right, *more))


def or_(left: Expression, right: Expression, *more: Expression) -> Expression:
    """Combine filters: at least one must match."""
    return _build_logical("or", (left, right, *more))


def not_(child: Expression) -> Expression:
    """Negate a filter: `child` must not match."""
    return {"type": "not", "child": child}


def is_null(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is null."""
    return _build_unary("is-null", column, style)


def not_null(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is not null."""
    return _build_unary("not-null", column, style)


def is_nan(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column, of type float or double, is NaN."""
    return _build_unary("is-nan", column, style)


def not_nan(column: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column, of type float or double, is not NaN."""
    return _build_unary("not-nan", column, style)


def lt(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is less than `value`."""
    return _build_literal("lt", column, value, style)


def lt_eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is less than or equal to `value`."""
    return _build_literal("lt-eq", column, value, style)


def gt(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is greater than `value`."""
    return _build_literal("gt", column, value, style)


def gt_eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column is greater than or equal to `value`."""
    return _build_literal("gt-eq", column, value, style)


def eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column equals `value`."""
    return _build_literal("eq", column, value, style)


def not_eq(column: str, value: Value, *, style: Style = "legacy") -> Expression:
    """Match rows in which the column does not equal `value`."""
    return _build_literal("not-eq", column, value, style)


def starts_with(column: str, value: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the string column begins with `value`."""
    return _build_literal("starts-with", column, value, style)


def not_starts_with(column: str, value: str, *, style: Style = "legacy") -> Expression:
    """Match rows in which the string column does not begin with `value`."""
    return _build_literal("not-starts-with", column, value, style)


def is_in(column: str, values: Iterable[Value], *, style: Style = "legacy") -> Expression:
    """Match rows in which the column equals one of `values`."""
    return _build_set("in", column, values, style)


def not_in(column: str, values: Iterable[Value], *, style: Style = "legacy") -> Expression:
    """Match rows in which the column equals none of `values`."""
    return _build_set("not-in", column, values, style)


def _reference(column: str) -> dict[str, Any]:
    return {"type": "reference", "name": column}


def _build_logical(kind: str, parts: tuple[Expression, ...]) -> Expression:
    expression = parts[0]
    for part in parts[1:]:
        expression = {"type": kind, "left": expression, "right": part}
    return expression


def _build_unary(kind: str, column: str, style: Style) -> Expression:
    return {"type": kind, "term": column} if style == "legacy" else {"type": kind, "child": _reference(column)}


def _build_literal(kind: str, column: str, value: Value, style: Style) -> Expression:
    if style == "legacy":
        return {"type": kind, "term": column, "value": value}
    return {"type": kind, "left": _reference(column), "right": value}


def _build_set(kind: str, column: str, values: Iterable[Value], style: Style) -> Expression:
    if style == "legacy":
        return {"type": kind, "term": column, "values": list(values)}
    return {"type": kind, "child": _reference(column), "values": list(values)}


_guards.guard_public_functions(globals())
