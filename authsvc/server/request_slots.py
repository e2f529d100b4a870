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
from authsvc.outgoing import bulkhead

Task = Callable[[], None]
_Waiting: TypeAlias = "Task | threading.Lock"

logger = logging.getLogger(__name__)


class RequestSlots:
    """At most `size` requests run at a time; the others wait in the order of their arrival, without a thread.

    `submit` is for servers that have read the request and have no thread for it, `hold` for servers that have one.
    """

    max_waiting_threads = 512
    """See `bulkhead.Slots`. A server with a fixed number of threads sets a lower one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._in_use = 0
        self._lock = threading.Lock()
        # Tasks, and locks of threads that wait for their release.
        self._waiting: deque[_Waiting] = deque()
        self._connections: list[BaseDatabaseWrapper] = []
        self._tasks: SimpleQueue[Task] = SimpleQueue()
        self._idle_threads = 0

    @property
    def size(self) -> int:
        return self._size

    def resize(self, size: int) -> None:
        """Change the number of slots; connections that are too many are closed, some at the end of their request."""
        with self._lock:
            self._size = size
            admitted = [self._waiting.popleft() for _ in range(min(len(self._waiting), size - self._in_use))]
            self._in_use += len(admitted)
            excess = max(0, min(len(self._connections), len(self._connections) + self._in_use - size))
            closing = [self._connections.pop() for _ in range(excess)]
        for connection in closing:
            connection.close()
        for waiting in admitted:
            self._start(waiting)

    def submit(self, task: Task) -> None:
        """Run `task` in a thread as soon as a slot is free. Never blocks."""
        with self._lock:
            if self._in_use >= self._size:
                self._waiting.append(task)
                return
            self._in_use += 1
        self._start(task)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for a slot and hold it in the block, except while the block waits for other servers."""
        response_timeout.apply_to_request_thread()
        self.acquire()
        bulkhead.set_slots(self)
        try:
            yield
        finally:
            bulkhead.set_slots(None)
            self.release()

    def acquire(self) -> None:
        """Wait for a slot, and install its connection in this thread."""
        released = None
        with self._lock:
            if self._in_use < self._size:
                self._in_use += 1
            else:
                released = threading.Lock()
                released.acquire()
                self._waiting.append(released)
        if released is not None:
            released.acquire()
        self._install_connection()

    def release(self) -> None:
        """Leave the slot with its connection to the next request."""
        try:
            self._store_connections()
        finally:
            with self._lock:
                waiting = self._waiting.popleft() if self._waiting and self._in_use <= self._size else None
                if waiting is None:
                    self._in_use -= 1
            if waiting is not None:
                self._start(waiting)

    def _start(self, waiting: _Waiting) -> None:
        """Let a request that has received a slot run in another thread."""
        if not callable(waiting):
            waiting.release()
            return
        with self._lock:
            needs_thread = not self._idle_threads
            if not needs_thread:
                self._idle_threads -= 1
        if needs_thread:
            # Their number is limited by the slots and by the bulkhead.
            threading.Thread(target=self._serve, name="request", daemon=True).start()
        self._tasks.put(waiting)

    def _serve(self) -> None:
        response_timeout.apply_to_request_thread()
        while True:
            self._run(self._tasks.get())
            with self._lock:
                self._idle_threads += 1

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
        self.release()

    def _next_task(self) -> Task | None:
        with self._lock:
            if self._waiting and callable(self._waiting[0]) and self._in_use <= self._size:
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
