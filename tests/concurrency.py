"""Concurrent calls, each in a thread with its own database connection, and rows locked by another connection."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, transaction

from accounts.models import User
from tests.conftest import ApiResponse
from tokens.models import Session

Result = TypeVar("Result")


def run_concurrently(*calls: Callable[[], Result]) -> list[Result]:
    """The results of the calls, in their order. All calls start together, when every thread has its connection."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=30)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def run_in_own_connection(call: Callable[[], Result]) -> Result:
    """The result of a call in a thread, which then closes its connection."""
    try:
        return call()
    finally:
        connection.close()


def status_counts(responses: Sequence[ApiResponse]) -> dict[int, int]:
    """Number of responses by status."""
    return dict(Counter(response.status_code for response in responses))


def run_in_order(user_id: UUID, *calls: Callable[[], Result], until_update: bool = False) -> list[Result]:
    """The results of calls that all wait for the row of a user and then get it one after the other, in their order.

    Another connection holds the row until every call waits for it. A call that needs no lock runs at once. With
    `until_update` calls wait only before they update the row, or for another call.
    """
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                User.objects.select_for_update(no_key=until_update).get(id=user_id)
                locked.set()
                release.wait(60)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls) + 1) as threads:
        holder = threads.submit(hold)
        try:
            assert locked.wait(30)
            running: list[Future[Result]] = []
            for call in calls:
                running.append(threads.submit(run_in_own_connection, call))
                _wait_until_locked(running)
        finally:
            release.set()
        holder.result()
        return [future.result() for future in running]


def wait_for_lock_waiters(number: int) -> None:
    """Wait until so many connections to this database wait for a lock."""
    _wait_for_lock_waiters(lambda: number)


def _wait_until_locked(running: Sequence[Future[Any]]) -> None:
    """Wait until every running call waits for a lock or has ended."""
    _wait_for_lock_waiters(lambda: sum(not future.done() for future in running))


def _wait_for_lock_waiters(number: Callable[[], int]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction would see the same state for ever
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            [waiting] = cursor.fetchone()
        if waiting >= number():
            return
        time.sleep(0.01)
    raise AssertionError("the calls do not reach the lock")


@contextmanager
def lock_session(session: Session, *, seconds: float = 60) -> Iterator[None]:
    """Another connection locks the row of a session during the block, for at most `seconds`."""
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Session.objects.select_for_update().get(id=session.id)
                locked.set()
                release.wait(seconds)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(10)
    try:
        yield
    finally:
        release.set()
        holder.join()
