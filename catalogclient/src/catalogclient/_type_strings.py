"""Parses primitive types with parameters: `decimal(10,2)` and `fixed[16]` (Iceberg specification, "Schemas")."""

from __future__ import annotations

import re
from typing import NamedTuple

from catalogclient import _guards

_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", re.ASCII)
_FIXED = re.compile(r"fixed\s*\[\s*(\d+)\s*\]", re.ASCII)


class DecimalType(NamedTuple):
    """Decimal type with `precision` digits in total and `scale` digits after the point."""

    precision: int
    scale: int


class FixedType(NamedTuple):
    """Fixed-length binary type of `length` bytes."""

    length: int


def parse_decimal_type(text: str) -> DecimalType | None:
    """Parse `decimal(P,S)`. Returns None for another type."""
    match = _DECIMAL.fullmatch(text)
    return DecimalType(int(match[1]), int(match[2])) if match else None


def parse_fixed_type(text: str) -> FixedType | None:
    """Parse `fixed[L]`. Returns None for another type."""
    match = _FIXED.fullmatch(text)
    return FixedType(int(match[1])) if match else None


def is_decimal_type(text: str) -> bool:
    """Return True for `decimal(P,S)`."""
    return parse_decimal_type(text) is not None


def is_fixed_type(text: str) -> bool:
    """Return True for `fixed[L]`."""
    return parse_fixed_type(text) is not None


def types_equal(one: str, other: str) -> bool:
    """Return True if both strings name the same type. Spaces inside decimal and fixed types are ignored."""
    decimals = parse_decimal_type(one), parse_decimal_type(other)
    if None not in decimals:
        return decimals[0] == decimals[1]
    lengths = parse_fixed_type(one), parse_fixed_type(other)
    if None not in lengths:
        return lengths[0] == lengths[1]
    return one == other


_guards.guard_public_functions(globals())
