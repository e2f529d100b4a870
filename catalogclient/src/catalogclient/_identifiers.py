"""Identifiers of namespaces, tables, views and functions, and the input forms that callers may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from catalogclient.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, order=True)
class NamespaceIdentifier:
    """Identifier of a namespace: its levels, outermost first."""

    namespace: tuple[str, ...]

    def to_dict(self) -> dict[str, list[str]]:
        """Return `{"namespace": [...]}`."""
        return {"namespace": list(self.namespace)}

    def __str__(self) -> str:
        return ".".join(self.namespace)


@dataclass(frozen=True, slots=True, order=True)
class TableIdentifier:
    """Identifier of a table, view or function: the levels of its namespace and its name."""

    namespace: tuple[str, ...]
    name: str

    def to_dict(self) -> dict[str, Any]:
        """Return `{"namespace": [...], "name": "..."}`."""
        return {"namespace": list(self.namespace), "name": self.name}

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


_table: Any = TableIdentifier
new_identifier, set_namespace, set_name = object.__new__, _table.namespace.__set__, _table.name.__set__
"""Create a TableIdentifier and set its fields, which its constructor does more slowly."""

NamespaceLike: TypeAlias = str | Sequence[str] | NamespaceIdentifier | Mapping[str, Sequence[str]]
"""`"a.b"`, `["a", "b"]`, `{"namespace": ["a", "b"]}` or NamespaceIdentifier. A string is split at its dots."""

TableLike: TypeAlias = str | Sequence[str] | TableIdentifier | Mapping[str, Any]
"""`"a.b.t"`, `["a", "b", "t"]`, `{"namespace": ["a", "b"], "name": "t"}` or TableIdentifier."""


def namespace(value: NamespaceLike) -> NamespaceIdentifier:
    """Convert `value` to an identifier. Raises InvalidArgumentError if it is invalid or has no level."""
    if isinstance(value, NamespaceIdentifier):
        levels: Any = value.namespace
    elif isinstance(value, str):
        levels = value.split(".")
    elif isinstance(value, Mapping):
        levels = value.get("namespace")
    else:
        levels = value
    return NamespaceIdentifier(_levels(levels, "a namespace"))


def parent(value: NamespaceLike | None) -> NamespaceIdentifier | None:
    """Convert `value` to an identifier. Returns None for None and for an identifier without levels."""
    if value is None or value in ("", [], ()):
        return None
    if isinstance(value, Mapping) and value.get("namespace") in ([], ()):
        return None
    if isinstance(value, NamespaceIdentifier) and not value.namespace:
        return None
    return namespace(value)


def table(value: TableLike) -> TableIdentifier:
    """Convert `value` to the identifier of a table, view or function. Raises InvalidArgumentError if it is invalid."""
    if isinstance(value, TableIdentifier):
        levels, name = _levels(value.namespace, "an identifier"), value.name
    elif isinstance(value, Mapping):
        levels, name = _levels(value.get("namespace"), "an identifier"), value.get("name", "")
    else:
        parts: Any = value.split(".") if isinstance(value, str) else value
        if not isinstance(parts, Sequence) or len(parts) < 2:
            raise InvalidArgumentError("an identifier needs a namespace and a name")
        levels, name = _levels(parts[:-1], "an identifier"), parts[-1]
    return TableIdentifier(levels, check_name(name))


def _levels(value: Any, subject: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidArgumentError(f"{subject} must be a string, a sequence of strings, a mapping or an identifier")
    if not value:
        raise InvalidArgumentError(f"{subject} needs at least one level")
    levels = tuple(check_name(level) for level in value)
    if any("\x1f" in level for level in levels):
        # Servers take U+001F as the separator, so that the levels would name another namespace.
        raise InvalidArgumentError("a level must not contain U+001F")
    return levels


def check_name(part: object) -> str:
    """Return a name or level. Raises InvalidArgumentError if it is invalid."""
    if not isinstance(part, str):
        raise InvalidArgumentError("names and levels must be strings")
    # Proxies resolve "." and "..", which changes the path (RFC 3986 §5.2.4).
    if part in ("", ".", ".."):
        raise InvalidArgumentError("a name or level must not be empty, '.' or '..'")
    try:
        part.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("a name or level contains a lone surrogate") from None
    return part
