"""JSON-like values in templates: conversion to text and truth, members, order and equality."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

MAX_DEPTH = 32
"""Depth of nested lists and objects that is printed; deeper values are omitted."""


class Encoded(str):
    """The result of `html`, `js` or `urlquery`, with the original value, so that it is not encoded twice."""

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
    """The printed form of a value; None and values that are not JSON-like are empty."""
    if isinstance(value, str):
        text = str(value)
        # Lone surrogates cannot be encoded.
        return text if text.isascii() else text.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 4096 else ""  # Python does not convert longer integers to text
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if depth >= MAX_DEPTH:
        return ""
    if isinstance(value, list | tuple):
        return f"[{' '.join(text_of(item, depth + 1) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{text_of(key)}:{text_of(value[key], depth + 1)}" for key in keys_of(value))
        return f"map[{' '.join(pairs)}]"
    return ""


def is_true(value: Any) -> bool:
    """False for false, 0, "", None, and empty lists and objects."""
    if isinstance(value, bool | int | float):
        return bool(value)
    return isinstance(value, Sized) and len(value) > 0


def keys_of(value: Mapping[Any, Any]) -> list[str]:
    """Keys in iteration order: sorted."""
    return sorted(key for key in value if isinstance(key, str))


def member(value: Any, key: Any) -> Any:
    """A member of an object or list by name or index, or None."""
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
