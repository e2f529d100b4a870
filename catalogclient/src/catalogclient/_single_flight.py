"""Shares one fetch between concurrent threads. No lock is held during the fetch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """One thread fetches. The other threads wait for its result or error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flight: Future[T | None] | None = None
        self._process = os.getpid()

    def run(self, fetch: Callable[[], T], *, unless: Callable[[], T | None] = lambda: None) -> T:
        """Returns the result of `unless` if it is not None, else of a fetch by this or another thread.

        `unless` is called before a fetch begins, so that a fetch that has just ended is not repeated.
        """
        while True:
            self._reset_after_fork()
            with self._lock:
                found = unless()
                if found is not None:
                    return found
                flight, leading = self._flight, self._flight is None
                if flight is None:
                    flight = self._flight = Future()
            if leading:
                return self._lead(flight, fetch)
            result = flight.result()
            # None means that the leading thread was interrupted. This thread tries again.
            if result is not None:
                return result

    @property
    def is_busy(self) -> bool:
        """True while a fetch is running."""
        self._reset_after_fork()
        return self._flight is not None

    def _lead(self, flight: Future[T | None], fetch: Callable[[], T]) -> T:
        try:
            result = fetch()
        except Exception as error:
            self._finish(flight).set_exception(error)
            raise
        except BaseException:
            self._finish(flight).set_result(None)
            raise
        self._finish(flight).set_result(result)
        return result

    def _finish(self, flight: Future[T | None]) -> Future[T | None]:
        """Lets the next caller begin a new fetch."""
        with self._lock:
            self._flight = None
        return flight

    def _reset_after_fork(self) -> None:
        """Resets the state in a child process, where the fetching thread does not exist and the lock may be held."""
        if self._process != os.getpid():
            self._lock = threading.Lock()
            self._flight = None
            self._process = os.getpid()
