"""What JSON-like values mean to a template: their text, their truth, their members, their order."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

DEEPEST = 32
"""Levels of nested lists and objects that are printed; what lies deeper is left out."""


class Encoded(str):
    """The result of `html`, `js` or `urlquery`: remembers the value, so that nothing is encoded twice."""

    __slots__ = ("form", "original")

    form: str
    original: Any

    @classmethod
    def of(cls, encoded: str, *, form: str, original: Any) -> Encoded:
        text = cls(encoded)
        text.form = form
        text.original = original
        return text


def text_of(value: Any, depth: int = 0) -> str:
    """A value as it is printed; None and whatever is not JSON-like print as nothing."""
    if isinstance(value, str):
        text = str(value)
        # A lone surrogate could not be sent in any encoding.
        return text if text.isascii() else text.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 4096 else ""  # Python refuses to print longer ones
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if depth >= DEEPEST:
        return ""
    if isinstance(value, list | tuple):
        return f"[{' '.join(text_of(item, depth + 1) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{text_of(key)}:{text_of(value[key], depth + 1)}" for key in keys_of(value))
        return f"map[{' '.join(pairs)}]"
    return ""


def is_true(value: Any) -> bool:
    """Empty is false: false, 0, "", None, an empty list or object."""
    if isinstance(value, bool | int | float):
        return bool(value)
    return isinstance(value, Sized) and len(value) > 0


def keys_of(value: Mapping[Any, Any]) -> list[str]:
    """Keys in the order in which an object is walked and printed."""
    return sorted(key for key in value if isinstance(key, str))


def member(value: Any, key: Any) -> Any:
    """A member of an object or list by name or position; None when there is none."""
    if isinstance(value, Mapping):
        return value.get(key) if isinstance(key, str) else None
    if isinstance(value, list | tuple) and is_number(key) and isinstance(key, int) and 0 <= key < len(value):
        return value[key]
    return None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(one: Any, other: Any) -> bool:
    """Equality of simple values; values of different kinds, lists and objects are never equal."""
    return _comparable(one, other) and bool(one == other)


def less(one: Any, other: Any) -> bool:
    """Order of two numbers or two texts; False for anything else."""
    return _comparable(one, other) and not isinstance(one, bool) and one is not None and bool(one < other)


def _comparable(one: Any, other: Any) -> bool:
    return (
        (isinstance(one, str) and isinstance(other, str))
        or (is_number(one) and is_number(other))
        or (isinstance(one, bool) and isinstance(other, bool))
        or (one is None and other is None)
    )
