"""Limits the requests of this process that wait for other servers, so that they never take the last threads.

A request that waits for another server leaves its slot to the next request: it holds neither one of the threads that
serve requests nor a database connection meanwhile. The number of waiting requests is limited, in total and per server,
so that an unresponsive server leaves room for calls to the others.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from authsvc.errors import ServiceBusy

MAX_WAITING = 32
"""Requests per process that wait for other servers at a time."""
MAX_WAITING_PER_SERVER = MAX_WAITING // 2
RETRY_SECONDS = 5


class Slots(Protocol):
    """The requests that run at a time; this thread serves one of them."""

    def release(self) -> None: ...

    def reacquire(self) -> None: ...

    @property
    def size(self) -> int: ...

    @property
    def max_waiting_threads(self) -> int:
        """Threads of the process that may wait without a slot for calls which this module does not limit."""


class _ThreadLocal(threading.local):
    slots: Slots | None = None


_local = _ThreadLocal()
_lock = threading.Lock()
_waiting: Counter[str] = Counter()


def set_slots(slots: Slots | None) -> None:
    """Announce that this thread now holds one of `slots`; None when it holds none any longer."""
    _local.slots = slots


@contextmanager
def wait_for(server: str) -> Iterator[None]:
    """Leave the slot of this request to others while the block waits for `server`, a host name or another label.

    Outside of requests, as in jobs and commands, it does nothing. Raises ServiceBusy when too many requests wait.
    """
    slots = _local.slots
    if slots is None:
        yield
        return
    with _lock:
        if _waiting.total() >= MAX_WAITING or _waiting[server] >= MAX_WAITING_PER_SERVER:
            raise ServiceBusy(retry_after=RETRY_SECONDS)
        _waiting[server] += 1
    with leave_slot():
        try:
            yield
        finally:
            # Before it waits for a slot.
            with _lock:
                _waiting[server] -= 1
                if not _waiting[server]:
                    del _waiting[server]


def slot_count() -> int | None:
    """The number of slots of which this thread holds one; None if it holds none."""
    return None if _local.slots is None else _local.slots.size


def max_waiting_threads() -> int | None:
    """`max_waiting_threads` of the slots of which this thread holds one; None if it holds none."""
    return None if _local.slots is None else _local.slots.max_waiting_threads


@contextmanager
def keep_slot() -> Iterator[None]:
    """Keep the slot of this request in the block although it waits for other servers.

    For calls inside a transaction, whose connection belongs to the slot. The caller limits the number of such requests.
    """
    slots, _local.slots = _local.slots, None
    try:
        yield
    finally:
        _local.slots = slots


@contextmanager
def leave_slot() -> Iterator[None]:
    """Leave the slot of this request to others in the block. The caller limits the number of such requests."""
    slots = _local.slots
    if slots is None:
        yield
        return
    slots.release()
    # A block inside of this one has no slot to leave.
    _local.slots = None
    try:
        yield
    finally:
        slots.reacquire()
        _local.slots = slots
