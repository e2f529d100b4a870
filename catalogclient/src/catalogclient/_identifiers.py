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


def namespace(given: NamespaceLike) -> NamespaceIdentifier:
    """Convert `given` to an identifier. Raises InvalidArgumentError if it is invalid or has no level."""
    if isinstance(given, NamespaceIdentifier):
        levels: Any = given.namespace
    elif isinstance(given, str):
        levels = given.split(".")
    elif isinstance(given, Mapping):
        levels = given.get("namespace")
    else:
        levels = given
    return NamespaceIdentifier(_levels(levels, "a namespace"))


def parent(given: NamespaceLike | None) -> NamespaceIdentifier | None:
    """Convert `given` to an identifier. Returns None for None and for an identifier without levels."""
    if given is None or given in ("", [], ()):
        return None
    if isinstance(given, Mapping) and given.get("namespace") in ([], ()):
        return None
    if isinstance(given, NamespaceIdentifier) and not given.namespace:
        return None
    return namespace(given)


def table(given: TableLike) -> TableIdentifier:
    """Convert `given` to the identifier of a table, view or function. Raises InvalidArgumentError if it is invalid."""
    if isinstance(given, TableIdentifier):
        levels, name = _levels(given.namespace, "an identifier"), given.name
    elif isinstance(given, Mapping):
        levels, name = _levels(given.get("namespace"), "an identifier"), given.get("name", "")
    else:
        parts: Any = given.split(".") if isinstance(given, str) else given
        if not isinstance(parts, Sequence) or len(parts) < 2:
            raise InvalidArgumentError("an identifier needs a namespace and a name")
        levels, name = _levels(parts[:-1], "an identifier"), parts[-1]
    return TableIdentifier(levels, check_name(name))


def _levels(given: Any, subject: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidArgumentError(f"{subject} must be a string, a sequence of strings, a mapping or an identifier")
    if not given:
        raise InvalidArgumentError(f"{subject} needs at least one level")
    levels = tuple(check_name(level) for level in given)
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
