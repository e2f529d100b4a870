"""The requests of a process that run at a time, each with one database connection.

A thread holds a slot while it serves a request and leaves it while the request waits for another server. Connections
belong to slots, not to threads, so there are never more connections than slots.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TypeAlias

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from authsvc.db.postgresql import response_timeout
from authsvc.observability import metrics
from authsvc.outgoing import bulkhead

Task = Callable[[], None]
_Waiting: TypeAlias = "Task | threading.Lock"

logger = logging.getLogger(__name__)

_MAX_RETURNS = 4
"""Requests that return before one that waits begins: streamed responses, which return for each chunk, would keep it
from a slot for as long as their clients read."""


class RequestSlots:
    """At most `size` requests run at a time; the others wait in the order of their arrival, without a thread.

    `submit` is for servers that have read the request and have no thread for it, `hold` for servers that have one.
    Requests that have left their slot for a call precede those that have not begun: their work would be lost if their
    time ran out.
    """

    max_waiting_threads = 512
    """See `bulkhead.Slots`. A server with a fixed number of threads sets a lower one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._in_use = 0
        self._lock = threading.Lock()
        # Tasks, or locks of threads that wait for their release.
        self._waiting: deque[_Waiting] = deque()
        self._returning: deque[threading.Lock] = deque()
        self._returns_left = _MAX_RETURNS
        self._lacks_thread = False
        """A request waits for a thread, which has been logged."""
        self._connections: list[BaseDatabaseWrapper] = []
        self._tasks: SimpleQueue[Task] = SimpleQueue()
        self._idle_threads = 0

    @property
    def size(self) -> int:
        return self._size

    @property
    def are_taken(self) -> bool:
        """True if a request that is submitted now has to wait."""
        return bool(self._waiting) or self._in_use >= self._size

    def start_threads(self) -> None:
        """Start a thread for each slot, so that tasks run even where the system later permits no further thread."""
        for _ in range(self._size):
            self._start_thread()
            with self._lock:
                self._idle_threads += 1

    def resize(self, size: int) -> None:
        """Change the number of slots; connections that are too many are closed, some at the end of their request."""
        with self._lock:
            self._size = size
            self._admit()
            excess = max(0, min(len(self._connections), len(self._connections) + self._in_use - size))
            closing = [self._connections.pop() for _ in range(excess)]
        for connection in closing:
            connection.close()

    def submit(self, task: Task) -> None:
        """Run `task` in a thread as soon as a slot is free. Never blocks."""
        with self._lock:
            self._waiting.append(task)
            self._admit()

    def count_waiting(self) -> None:
        """Set the metric of waiting requests; should be called about every second."""
        metrics.WAITING_REQUESTS.set(len(self._waiting))

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for a slot and hold it in the block, except while the block waits for other servers."""
        response_timeout.apply_to_request_thread()
        self._wait_in(self._waiting)
        bulkhead.set_slots(self)
        try:
            yield
        finally:
            bulkhead.set_slots(None)
            self.release()

    def reacquire(self) -> None:
        """Wait for a slot, before requests that have not begun, and install its connection in this thread."""
        self._wait_in(self._returning)

    def _wait_in(self, queue: deque[_Waiting] | deque[threading.Lock]) -> None:
        released = None
        with self._lock:
            if self._in_use < self._size:
                self._in_use += 1
            else:
                released = threading.Lock()
                released.acquire()
                queue.append(released)
        if released is not None:
            released.acquire()
        self._install_connection()

    def release(self) -> None:
        """Leave the slot with its connection to the next request."""
        try:
            self._store_connections()
        finally:
            with self._lock:
                self._in_use -= 1
                self._admit()

    def _admit(self) -> None:
        """Give free slots to requests that return, and to those that have waited longest. Needs the lock."""
        while self._in_use < self._size:
            if self._returning and self._returns_left:
                self._returning.popleft().release()
                self._returns_left -= 1
            elif self._waiting and self._start(self._waiting[0]):
                self._waiting.popleft()
                self._returns_left = _MAX_RETURNS
            elif self._returning:
                self._returning.popleft().release()
            else:
                return
            self._in_use += 1

    def _start(self, waiting: _Waiting) -> bool:
        """Let a request run in another thread. Returns False if it needs a thread and none can be started."""
        if not callable(waiting):
            waiting.release()
            return True
        if self._idle_threads:
            self._idle_threads -= 1
        else:
            try:
                self._start_thread()
            except RuntimeError as error:
                if not self._lacks_thread:
                    logger.warning("a request waits for a thread", extra={"error": str(error)})
                self._lacks_thread = True
                return False
            self._lacks_thread = False
        self._tasks.put(waiting)
        return True

    def _start_thread(self) -> None:
        threading.Thread(target=self._serve, name="request", daemon=True).start()

    def _serve(self) -> None:
        response_timeout.apply_to_request_thread()
        while True:
            self._run(self._tasks.get())

    def _run(self, task: Task) -> None:
        """Run a task, and in the same slot those that wait for one."""
        self._install_connection()
        bulkhead.set_slots(self)
        following: Task | None = task
        while following is not None:
            try:
                following()
            except BaseException:
                logger.exception("request failed")
            following = self._next_task()
        bulkhead.set_slots(None)
        # Before the slot is free, so that this thread can serve the request that takes it.
        with self._lock:
            self._idle_threads += 1
        try:
            self.release()
        except Exception:
            # The slot is free, and the thread serves further requests.
            logger.exception("a database connection is not kept")

    def _next_task(self) -> Task | None:
        with self._lock:
            is_free = not self._returning and self._in_use <= self._size
            if is_free and self._waiting and callable(self._waiting[0]):
                return self._waiting.popleft()  # type: ignore[return-value]  # a task, as was checked
        return None

    def _install_connection(self) -> None:
        # A connection with an open transaction has stayed in its thread.
        if self._connections and not connections.all(initialized_only=True):
            with contextlib.suppress(IndexError):
                connections[DEFAULT_DB_ALIAS] = self._connections.pop()

    def _store_connections(self) -> None:
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block:
                continue
            if not connection.allow_thread_sharing:
                connection.inc_thread_sharing()
            del connections[connection.alias]
            with self._lock:
                is_excess = self._in_use > self._size or len(self._connections) >= self._size
                if not is_excess:
                    self._connections.append(connection)
            if is_excess:
                connection.close()
