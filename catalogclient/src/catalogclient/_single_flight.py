"""One fetch for many threads that want the same thing at the same moment, with no lock held while it goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Lets one thread fetch while the others wait for what it brings, be it a failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flight: Future[T | None] | None = None
        self._process = os.getpid()

    def run(self, fetch: Callable[[], T], *, unless: Callable[[], T | None] = lambda: None) -> T:
        """What `fetch` returns, called here or in a thread that was faster; or what `unless` does, if it is not None.

        `unless` is asked before a fetch begins, so that one that has just ended is not repeated.
        """
        while True:
            self._forget_parent()
            with self._lock:
                found = unless()
                if found is not None:
                    return found
                flight, leading = self._flight, self._flight is None
                if flight is None:
                    flight = self._flight = Future()
            if leading:
                return self._lead(flight, fetch)
            brought = flight.result()
            # None: the leading thread was interrupted, which is its own affair.
            if brought is not None:
                return brought

    @property
    def is_busy(self) -> bool:
        """Whether a fetch goes on."""
        self._forget_parent()
        return self._flight is not None

    def _lead(self, flight: Future[T | None], fetch: Callable[[], T]) -> T:
        try:
            brought = fetch()
        except Exception as error:
            self._land(flight).set_exception(error)
            raise
        except BaseException:
            self._land(flight).set_result(None)
            raise
        self._land(flight).set_result(brought)
        return brought

    def _land(self, flight: Future[T | None]) -> Future[T | None]:
        """From here on the next caller begins a fetch of its own."""
        with self._lock:
            self._flight = None
        return flight

    def _forget_parent(self) -> None:
        """After a fork the fetching thread exists in the parent only, and the lock may be held by nobody."""
        if self._process != os.getpid():
            self._lock = threading.Lock()
            self._flight = None
            self._process = os.getpid()
