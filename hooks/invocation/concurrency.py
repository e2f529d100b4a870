"""Limits the calls of hooks that a process makes at a time.

A request that waits for a call holds neither its slot nor a database connection. Calls inside a transaction keep both,
so they are reserved before the transaction begins, and hold at most half of the slots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from authsvc import conf
from authsvc.conf.sections.hooks import Hook
from authsvc.errors import ServiceBusy
from authsvc.outgoing import bulkhead
from hooks import settings
from hooks.errors import HookTimedOut

_RETRY_SECONDS = 5


class _ThreadLocal(threading.local):
    reservation_wait: float | None = None
    """The seconds that the reservation of this thread has waited; None without a reservation."""


class _Calls:
    """The calls of this process: those in progress and reserved, and those of them that keep a slot."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._count = 0
        self._count_with_slot = 0
        self.waiting = 0

    def acquire(self, *, slots: int | None, max_waiting_threads: int | None, seconds: float) -> bool:
        """Begin a call, after a wait of at most `seconds`. `slots`: of the process, if the call keeps one.

        Raises ServiceBusy if `max_waiting_threads` requests wait without a slot for a call or its response.
        """

        def is_free() -> bool:
            has_slot = slots is None or self._count_with_slot < max(1, slots // 2)
            return has_slot and self._count < conf.current().hook_calls.max_concurrency

        with self._free:
            must_wait = not is_free()
            if must_wait and not seconds:
                return False
            waiting = self.waiting + self._count - self._count_with_slot
            if (must_wait or slots is None) and max_waiting_threads is not None and waiting >= max_waiting_threads:
                raise ServiceBusy(retry_after=_RETRY_SECONDS)
            if must_wait:
                self.waiting += 1
                try:
                    if not self._free.wait_for(is_free, timeout=seconds):
                        return False
                finally:
                    self.waiting -= 1
            self._count += 1
            self._count_with_slot += slots is not None
        return True

    def release(self, *, slots: int | None) -> None:
        with self._free:
            self._count -= 1
            self._count_with_slot -= slots is not None
            self._free.notify_all()


_local = _ThreadLocal()
calls = _Calls()


@contextmanager
def reserve(hook: Hook) -> Iterator[None]:
    """Reserve a call in the block, which opens a transaction and calls the hook inside of it.

    Leaves the slot of the request while it waits. Further reservations in the block have no effect. Raises
    HookTimedOut if no call is free within the hook's timeout, and ServiceBusy.
    """
    if _local.reservation_wait is not None:
        yield
        return
    timeout = settings.get(hook).time_limit
    slots, max_waiting_threads = bulkhead.slot_count(), bulkhead.max_waiting_threads()
    started = time.monotonic()
    if not calls.acquire(slots=slots, max_waiting_threads=max_waiting_threads, seconds=0):
        with bulkhead.leave_slot():
            is_reserved = calls.acquire(
                slots=slots, max_waiting_threads=max_waiting_threads, seconds=timeout.total_seconds()
            )
        if not is_reserved:
            raise HookTimedOut.after(timeout)
    _local.reservation_wait = time.monotonic() - started
    try:
        yield
    finally:
        _local.reservation_wait = None
        calls.release(slots=slots)


@contextmanager
def call(hook: Hook) -> Iterator[float]:
    """The block calls the hook; its value is the deadline of the call (monotonic clock), with the wait for it.

    Outside of transactions the block has no slot, except for a database function, which needs its connection. A call
    inside of a transaction without a reservation does not wait for another. Raises HookTimedOut and ServiceBusy.
    """
    timeout = settings.get(hook).time_limit
    deadline = time.monotonic() + timeout.total_seconds() - (_local.reservation_wait or 0)
    is_in_transaction = transaction.get_connection().in_atomic_block
    if not is_in_transaction and settings.get(hook).transport == "pg-functions":
        with reserve(hook):
            yield deadline
        return
    max_waiting_threads = bulkhead.max_waiting_threads()
    # The connection of a transaction belongs to the slot.
    slots = bulkhead.slot_count() if is_in_transaction else None
    with bulkhead.keep_slot() if is_in_transaction else bulkhead.leave_slot():
        if _local.reservation_wait is not None:
            yield deadline
            return
        seconds = 0 if is_in_transaction else timeout.total_seconds()
        if not calls.acquire(slots=slots, max_waiting_threads=max_waiting_threads, seconds=seconds):
            raise HookTimedOut.after(timeout)
        try:
            yield deadline
        finally:
            calls.release(slots=slots)
