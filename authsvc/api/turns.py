"""Whose turn it is among the requests of this process: lists, which cost as much as several others, give way."""

from __future__ import annotations

import math
import threading
import time
from types import TracebackType

from authsvc import conf
from authsvc.server import serving

SECONDS_FOR_EACH = 0.0006
"""How long a list waits at most for each row asked for: more than ten times what the row costs."""
LONGEST_SECONDS = 0.2
QUIET_SECONDS = 0.005
"""How long nobody must have been served: even a busy process has moments between two requests."""
STEP_SECONDS = 0.004


class Turns:
    """What requests of one process know of each other: each is surrounded by `with` on this."""

    def __init__(self) -> None:
        # By thread. Adding and discarding are one step each, so that only lists take the lock.
        self._served: set[int] = set()
        self._served_last = -math.inf
        self._waiting: dict[int, None] = {}
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many lists wait at this moment."""
        return len(self._waiting)

    def __enter__(self) -> None:
        self._served.add(threading.get_ident())

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        this = threading.get_ident()
        if this in self._served:
            self._served.discard(this)
            self._served_last = time.monotonic()

    def give_way(self, *, rows: int) -> None:
        """To be called by a list, outside of transactions: wait while others are served, longer the more it will cost.

        It begins at once when nobody but lists is served. One thread is left to those that are waited for: where all
        would wait, the list that has waited longest begins.
        """
        this = threading.get_ident()
        # No longer one of those that others wait for.
        self._served.discard(this)
        now = time.monotonic()
        until = now + min(rows * SECONDS_FOR_EACH, LONGEST_SECONDS)
        with self._lock:
            self._waiting[this] = None
            if len(self._waiting) >= serving.threads(conf.current()):
                del self._waiting[next(iter(self._waiting))]
        while this in self._waiting and now < until and self._is_busy(now):
            time.sleep(STEP_SECONDS)
            now = time.monotonic()
        with self._lock:
            self._waiting.pop(this, None)

    def _is_busy(self, now: float) -> bool:
        return bool(self._served) or now - self._served_last < QUIET_SECONDS


of_process = Turns()
