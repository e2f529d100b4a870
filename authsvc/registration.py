"""Typed registries: a lower app declares a Protocol, a higher app registers an object in `AppConfig.ready()`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")


class Slot(Generic[T]):
    """Holds the one implementation of a Protocol."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._implementation: T | None = None

    def register(self, implementation: T) -> None:
        self._implementation = implementation

    def get(self) -> T:
        """Raises ImproperlyConfigured when no installed app has registered an implementation."""
        if self._implementation is None:
            raise ImproperlyConfigured(f"No installed app registers a {self._name}; see INSTALLED_APPS.")
        return self._implementation


class OrderedRegistry(Generic[T]):
    """Holds implementations of a Protocol in a fixed order, independent of the order of INSTALLED_APPS."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, T]] = []

    def register(self, implementation: T, *, order: int) -> None:
        """Adds an implementation; lower numbers come first."""
        self._entries.append((order, implementation))
        self._entries.sort(key=lambda entry: entry[0])

    def __iter__(self) -> Iterator[T]:
        return (implementation for _, implementation in self._entries)
