"""Primitive types with numbers in their names: `decimal(10,2)`, `fixed[16]` (Iceberg specification)."""

from __future__ import annotations

import re
from typing import NamedTuple

_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", re.ASCII)
_FIXED = re.compile(r"fixed\s*\[\s*(\d+)\s*\]", re.ASCII)


class DecimalType(NamedTuple):
    """A decimal of `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int


class FixedType(NamedTuple):
    """`length` bytes."""

    length: int


def parse_decimal_type(text: str) -> DecimalType | None:
    """The numbers of a decimal type; None for another type."""
    match = _DECIMAL.fullmatch(text)
    return DecimalType(int(match[1]), int(match[2])) if match else None


def parse_fixed_type(text: str) -> FixedType | None:
    """The length of a fixed type; None for another type."""
    match = _FIXED.fullmatch(text)
    return FixedType(int(match[1])) if match else None


def is_decimal_type(text: str) -> bool:
    return parse_decimal_type(text) is not None


def is_fixed_type(text: str) -> bool:
    return parse_fixed_type(text) is not None


def types_equal(one: str, other: str) -> bool:
    """Whether two names mean the same type; blanks inside decimal and fixed do not matter."""
    decimals = parse_decimal_type(one), parse_decimal_type(other)
    if None not in decimals:
        return decimals[0] == decimals[1]
    lengths = parse_fixed_type(one), parse_fixed_type(other)
    if None not in lengths:
        return lengths[0] == lengths[1]
    return one == other
