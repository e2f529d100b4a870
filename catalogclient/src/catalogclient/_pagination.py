"""Iterates over paged lists. Pages are requested as their items are consumed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from catalogclient._identifiers import NamespaceIdentifier, NamespaceLike
from catalogclient.errors import InvalidResponseError, NotFoundError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_MAX_EMPTY_PAGES = 1_000


class Page(Protocol[T_co]):
    """A page of a list."""

    @property
    def next_page_token(self) -> str | None: ...

    def __iter__(self) -> Iterator[T_co]: ...

    def __len__(self) -> int: ...


class Cursor:
    """Token of the next page, with protection against servers that never end a list."""

    def __init__(self, *, paged: bool) -> None:
        # Servers return the whole list if the first request has no page token.
        self.token: str | None = "" if paged else None
        self._empty_pages = 0

    def advance(self, page: Page[object]) -> bool:
        """Returns True if another page follows `page`. Raises InvalidResponseError for a list without end."""
        next_token = page.next_page_token
        self._empty_pages = 0 if len(page) else self._empty_pages + 1
        if next_token is None:
            return False
        if next_token == self.token or self._empty_pages >= _MAX_EMPTY_PAGES:
            raise InvalidResponseError("the server repeats a page token or sends empty pages without end")
        self.token = next_token
        return True


def items(
    fetch: Callable[[int | None, str | None], Page[T]],
    *,
    page_size: int | None,
    default_size: Callable[[], int | None],
) -> Iterator[T]:
    """Yields the items of all pages. `fetch` takes page size and page token."""
    size = default_size() if page_size is None else page_size
    cursor = Cursor(paged=size is not None)
    while True:
        page = fetch(size, cursor.token)
        yield from page
        if not cursor.advance(page):
            return


def breadth_first(
    children: Callable[[NamespaceLike | None], Iterator[NamespaceIdentifier]], start: NamespaceLike | None
) -> Iterator[NamespaceIdentifier]:
    """Yields all namespaces below `start`, each once, because some servers list all levels at the top."""
    seen: set[NamespaceIdentifier] = set()
    waiting: deque[NamespaceLike | None] = deque([start])
    while waiting:
        above = waiting.popleft()
        try:
            for found in children(above):
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
                    yield found
        except NotFoundError:
            if above is start:
                raise
