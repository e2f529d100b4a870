"""Finds columns in a schema by their path, and checks types (Iceberg specification, "Schema Evolution")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from catalogclient import _type_strings
from catalogclient.errors import InvalidArgumentError

_TIMES = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
NESTED_KEYS = {"list": ("element",), "map": ("key", "value")}
"""Type with nested types → the keys that hold them."""


def split(column: str | Sequence[str]) -> list[str]:
    """Return the names of a path. Raises InvalidArgumentError for an empty name."""
    parts = column.split(".") if isinstance(column, str) else list(column)
    if not parts or "" in parts:
        raise InvalidArgumentError("a column must be a name or a path of names")
    return parts


def join(column: str | Sequence[str]) -> str:
    """Return a path as text."""
    return ".".join(split(column))


def find(fields: list[Any], path: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Return the document and the key that hold the type at a path. Raises InvalidArgumentError without a column."""
    holder: dict[str, Any] = next((child for child in fields if child["name"] == path[0]), {})
    key = "type"
    for number, name in enumerate(path[1:], start=1):
        inner = holder.get(key)
        if isinstance(inner, dict) and inner.get("type") == "struct":
            holder, key = next((child for child in inner["fields"] if child["name"] == name), {}), "type"
        elif isinstance(inner, dict) and name in NESTED_KEYS.get(inner["type"], ()):
            holder, key = inner, name
        else:
            holder = {}
        if not holder:
            raise InvalidArgumentError(f"there is no column {'.'.join(path[: number + 1])}")
    if not holder:
        raise InvalidArgumentError(f"there is no column {path[0]}")
    return holder, key


def all_fields(fields: list[Any]) -> Iterator[Any]:
    """Yield the fields, and those of all nested types."""
    for child in fields:
        yield child
        yield from _nested_fields(child["type"])


def _nested_fields(type: Any) -> Iterator[Any]:
    if isinstance(type, dict):
        yield from all_fields(type.get("fields", []))
        for key in NESTED_KEYS.get(type["type"], ()):
            yield {"id": type[f"{key}-id"]}
            yield from _nested_fields(type[key])


def can_widen(old: Any, new: str) -> bool:
    """Return True if a column of the type `old` may get the type `new`."""
    if (old, new) in (("int", "long"), ("float", "double")) or old == new:
        return True
    before, after = _type_strings.parse_decimal_type(str(old)), _type_strings.parse_decimal_type(new)
    return (
        before is not None and after is not None and after.scale == before.scale and after.precision >= before.precision
    )


def transform_suffix(transform: str, type: Any) -> str:
    """Return the suffix of a partition field's default name.

    Raises InvalidArgumentError if the transform does not accept the type.
    """
    match = re.fullmatch(r"(identity|year|month|day|hour|bucket|truncate)(?:\[([1-9]\d{0,8})\])?", transform)
    kind = match[1] if match else ""
    if not match or bool(match[2]) != (kind in ("bucket", "truncate")):
        raise InvalidArgumentError(f"{transform} is not a transform")
    base = re.split(r"[\s(\[]", type)[0] if isinstance(type, str) else "nested"
    accepted = {
        "identity": base not in ("nested", "variant", "geometry", "geography"),
        "year": base in ("date", *_TIMES),
        "month": base in ("date", *_TIMES),
        "day": base in ("date", *_TIMES),
        "hour": base in _TIMES,
        "bucket": base in ("int", "long", "decimal", "date", "time", "string", "uuid", "fixed", "binary", *_TIMES),
        "truncate": base in ("int", "long", "decimal", "string", "binary"),
    }
    if not accepted[kind]:
        raise InvalidArgumentError(f"the transform {transform} does not accept the type {base}")
    return {"identity": "", "bucket": f"bucket_{match[2]}", "truncate": f"trunc_{match[2]}"}.get(kind, kind)
