"""Lists of any length, page by page as their items are taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from catalogclient._identifiers import NamespaceIdentifier, NamespaceLike
from catalogclient.errors import InvalidResponseError, NotFoundError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_MOST_EMPTY_PAGES = 1_000


class Page(Protocol[T_co]):
    """Some items, and where the next ones begin."""

    @property
    def next_page_token(self) -> str | None: ...

    def __iter__(self) -> Iterator[T_co]: ...

    def __len__(self) -> int: ...


class Walk:
    """The way through a list: the token of each next page, and whether the server leads in circles."""

    def __init__(self, *, paged: bool) -> None:
        # Servers return everything at once when the first request has no token at all.
        self.token: str | None = "" if paged else None
        self._empty_pages = 0

    def goes_on(self, page: Page[object]) -> bool:
        """Whether another page follows `page`. Raises InvalidResponseError for a list without end."""
        following = page.next_page_token
        self._empty_pages = 0 if len(page) else self._empty_pages + 1
        if following is None:
            return False
        if following == self.token or self._empty_pages >= _MOST_EMPTY_PAGES:
            raise InvalidResponseError("the server's pages do not end")
        self.token = following
        return True


def items(
    fetch: Callable[[int | None, str | None], Page[T]],
    *,
    page_size: int | None,
    default_size: Callable[[], int | None],
) -> Iterator[T]:
    """The items of all pages; `fetch` gets size and token. Nothing is asked before the first item is taken."""
    size = default_size() if page_size is None else page_size
    walk = Walk(paged=size is not None)
    while True:
        page = fetch(size, walk.token)
        yield from page
        if not walk.goes_on(page):
            return


def breadth_first(
    children: Callable[[NamespaceLike | None], Iterator[NamespaceIdentifier]], start: NamespaceLike | None
) -> Iterator[NamespaceIdentifier]:
    """All namespaces below `start`, each once: some servers list every level at the top."""
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
