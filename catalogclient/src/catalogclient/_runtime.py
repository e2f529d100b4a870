"""Runs the asynchronous operations of the library, either blocking the thread or with asyncio.

The operations are written once, as coroutines. With BlockingRuntime they never suspend, so that `run` gets the result
of a coroutine in one step.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from catalogclient import _call_scope
from catalogclient._messages import HttpResponse, PreparedRequest
from catalogclient._options import Timeout
from catalogclient.errors import RequestTimeoutError

if TYPE_CHECKING:
    from catalogclient._lazy_transport import LazyTransport

T = TypeVar("T")


class Runtime(Protocol):
    """Everything of a catalog that waits. An object belongs to one catalog. Siblings share the transport."""

    closed: threading.Event

    @property
    def name(self) -> str:
        """Name and version of the HTTP library for the User-Agent header."""
        ...

    async def exchange(self, request: PreparedRequest, limits: Timeout, deadline: float | None) -> HttpResponse:
        """Send a request once and read the whole response. Raises CatalogError."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait. Raises ClientClosedError if the catalog is closed meanwhile."""

    async def call(self, function: Callable[[], T], *, may_block: bool) -> T:
        """Call a function of an authentication manager."""
        ...

    async def wait(self, flight: Future[T]) -> T:
        """Wait for a fetch of another caller. Raises RequestTimeoutError after the deadline of the call."""
        ...

    def sibling(self) -> Self:
        """Return a runtime with the same transport for another catalog."""
        ...

    def close(self) -> None:
        """End all delays of the catalog."""

    async def close_transport(self) -> None:
        """Close the connections."""


class BlockingRuntime:
    """Blocks the calling thread."""

    def __init__(self, transport: LazyTransport) -> None:
        self.closed = threading.Event()
        self._transport = transport

    @property
    def name(self) -> str:
        return self._transport.get().name

    async def exchange(self, request: PreparedRequest, limits: Timeout, deadline: float | None) -> HttpResponse:
        return self._transport.get().exchange(request, timeout=limits, deadline=deadline)

    async def sleep(self, seconds: float) -> None:
        _call_scope.sleep(seconds, self.closed)

    async def call(self, function: Callable[[], T], *, may_block: bool) -> T:
        return function()

    async def wait(self, flight: Future[T]) -> T:
        return wait_blocking(flight)

    def sibling(self) -> BlockingRuntime:
        return BlockingRuntime(self._transport)

    def close(self) -> None:
        self.closed.set()

    async def close_transport(self) -> None:
        self._transport.close()


def wait_blocking(flight: Future[T]) -> T:
    """Block until the fetch has ended. Raises RequestTimeoutError after the deadline of the call."""
    scope = _call_scope.current()
    try:
        return flight.result(scope.remaining() if scope else None)
    except TimeoutError as error:
        if isinstance(error, RequestTimeoutError):
            raise
        raise RequestTimeoutError("Network request failed: deadline exceeded", phase="total") from None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("the coroutine was suspended")


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of an asynchronous generator that never suspends."""
    try:
        while True:
            try:
                item = run(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(items.aclose())
