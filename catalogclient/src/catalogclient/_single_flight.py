"""Shares one fetch between concurrent callers. No lock is held during the fetch."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from catalogclient._runtime import run, wait_blocking
from catalogclient.errors import ClientClosedError, RequestTimeoutError

T = TypeVar("T")


class UnsharedError(Exception):
    """A fetch failed in a way that concerns only its caller. The callers that wait for it fetch themselves."""


class SingleFlight(Generic[T]):
    """One caller fetches. The other callers wait for its result or error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flight: Future[T | None] | None = None
        self._process = os.getpid()

    def run(self, fetch: Callable[[], T], *, unless: Callable[[], T | None] = lambda: None) -> T:
        """Do the same as `run_async`, blocking the thread."""

        async def fetch_blocking() -> T:
            return fetch()

        async def wait(flight: Future[T | None]) -> T | None:
            return wait_blocking(flight)

        return run(self.run_async(fetch_blocking, unless=unless, wait=wait))

    async def run_async(
        self,
        fetch: Callable[[], Awaitable[T]],
        *,
        unless: Callable[[], T | None],
        wait: Callable[[Future[T | None]], Awaitable[T | None]],
    ) -> T:
        """Return the result of `unless` if it is not None, else of a fetch by this or another caller.

        `unless` is called before a fetch begins, so that a fetch that has just ended is not repeated. `wait` returns
        the result of the fetch of another caller.
        """
        while True:
            self._reset_after_fork()
            with self._lock:
                value = unless()
                if value is not None:
                    return value
                flight, leading = self._flight, self._flight is None
                if flight is None:
                    flight = self._flight = Future()
            if leading:
                return await self._lead(flight, fetch)
            result = await wait(flight)
            # None means that the leading caller was interrupted. This caller tries again.
            if result is not None:
                return result

    @property
    def is_busy(self) -> bool:
        """True while a fetch is running."""
        self._reset_after_fork()
        return self._flight is not None

    async def _lead(self, flight: Future[T | None], fetch: Callable[[], Awaitable[T]]) -> T:
        try:
            result = await fetch()
        except BaseException as error:
            ended = self._finish(flight)
            if isinstance(error, Exception) and not _belongs_to_caller(error):
                ended.set_exception(error)
            else:
                ended.set_result(None)
            raise
        self._finish(flight).set_result(result)
        return result

    def _finish(self, flight: Future[T | None]) -> Future[T | None]:
        """Let the next caller begin a new fetch."""
        with self._lock:
            self._flight = None
        return flight

    def _reset_after_fork(self) -> None:
        """Reset the state in a child process, where the fetching thread does not exist and the lock may be held."""
        if self._process != os.getpid():
            self._lock = threading.Lock()
            self._flight = None
            self._process = os.getpid()


def _belongs_to_caller(error: Exception) -> bool:
    """Return True if the fetch failed because of the leading caller, such as its deadline or closing."""
    if isinstance(error, RequestTimeoutError):
        return error.phase == "total"
    return isinstance(error, ClientClosedError | UnsharedError)
