"""How many requests of this process may use the database at a time, after DB_MAX_POOL_SIZE has changed.

Threads and processes are made once. Fewer connections than they would keep means that some of them wait, and that a
connection is given back at the end of its request; more than they can use has to wait for a restart.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from django.db import connections

from authsvc import conf
from authsvc.server import serving


class Room:
    """As much as there are threads, until it is made smaller."""

    def __init__(self, *, processes: int, threads: int) -> None:
        self._processes = processes
        self._threads = threads
        self._size = threads
        self._inside = 0
        self._change = threading.Condition()

    @property
    def size(self) -> int:
        return self._size

    def fit(self, config: conf.AuthConfig) -> None:
        """Take the limit that new settings have."""
        with self._change:
            self._size = min(self._threads, serving.threads_of(config, processes=self._processes))
            self._change.notify_all()

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """One of the places, waited for while all are taken."""
        with self._change:
            self._change.wait_for(lambda: self._inside < self._size)
            self._inside += 1
        try:
            yield
        finally:
            if self._size < self._threads:
                connections.close_all()
            with self._change:
                self._inside -= 1
                self._change.notify()
