"""Concurrent holders of an advisory lock, and concurrent builds of indexes."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from authsvc.db import advisory_locks

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_advisory_lock_has_one_holder() -> None:
    entered, second_in = threading.Event(), threading.Event()

    def second() -> None:
        entered.set()
        with advisory_locks.hold_lock("test"):
            second_in.set()

    thread = threading.Thread(target=second)
    with advisory_locks.hold_lock("test"):
        thread.start()
        entered.wait()
        assert not second_in.wait(3 * advisory_locks.RETRY_SECONDS)
    thread.join()
    assert second_in.is_set()


def test_an_index_can_be_built_concurrently_while_others_wait_for_the_lock() -> None:
    # The connection may come from a request slot, where statements wait only briefly for locks.
    connection.close()
    waiters = [threading.Thread(target=_hold_for_a_moment) for _ in range(3)]
    with connection.cursor() as cursor, advisory_locks.hold_lock("test"):
        cursor.execute("CREATE TABLE crowded AS SELECT 1 AS number")
        for waiter in waiters:
            waiter.start()
        try:
            cursor.execute("SET statement_timeout = '10s'")
            for number in range(20):
                cursor.execute(f"CREATE INDEX CONCURRENTLY crowded_{number} ON crowded (number)")
        finally:
            cursor.execute("RESET statement_timeout")
            cursor.execute("DROP TABLE crowded")
    for waiter in waiters:
        waiter.join()


def _hold_for_a_moment() -> None:
    with advisory_locks.hold_lock("test"):
        pass
