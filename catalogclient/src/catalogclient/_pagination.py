"""Iterates over paged lists. Pages are requested as their items are consumed."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
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


async def items(
    fetch: Callable[[int | None, str | None], Awaitable[Page[T]]],
    *,
    page_size: int | None,
    default_size: Callable[[], Awaitable[int | None]],
) -> AsyncGenerator[T, None]:
    """Yield the items of all pages. `fetch` takes page size and page token.

    Raises InvalidResponseError if the server never ends the list.
    """
    size = await default_size() if page_size is None else page_size
    # Servers return the whole list if the first request has no page token.
    token = None if size is None else ""
    empty_pages = 0
    # Hashes, because tokens may be long.
    seen: set[int] = set()
    while True:
        page = await fetch(size, token)
        for item in page:
            yield item
        following = page.next_page_token
        empty_pages = 0 if len(page) else empty_pages + 1
        if following is None:
            return
        if hash(following) in seen or empty_pages >= _MAX_EMPTY_PAGES:
            raise InvalidResponseError("the server repeats a page token or sends empty pages without end")
        seen.add(hash(following))
        token = following


async def breadth_first(
    children: Callable[[NamespaceLike | None], AsyncGenerator[NamespaceIdentifier, None]], start: NamespaceLike | None
) -> AsyncGenerator[NamespaceIdentifier, None]:
    """Yield all namespaces below `start`, each once, because some servers list all levels at the top."""
    seen: set[NamespaceIdentifier] = set()
    waiting: deque[NamespaceLike | None] = deque([start])
    while waiting:
        above = waiting.popleft()
        try:
            async for namespace in children(above):
                if namespace not in seen:
                    seen.add(namespace)
                    waiting.append(namespace)
                    yield namespace
        except NotFoundError:
            if above is start:
                raise
