"""Concurrent calls, each in a thread with its own database connection, and rows locked by another connection."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from django.db import connection, transaction

from tests.conftest import Answer
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


def status_counts(responses: Sequence[Answer]) -> dict[int, int]:
    """Number of responses by status."""
    return dict(Counter(response.status_code for response in responses))


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
