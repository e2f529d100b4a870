"""Concurrent requests and events within a limit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from authsvc.security import rate_limits
from tests.authsvc.security.test_rate_limits import HOUR, bucket, pass_time

__all__ = ["bucket"]

pytestmark = pytest.mark.django_db(transaction=True)


def together(calls: int, call: Callable[[], object]) -> list[object]:
    """The results of `calls` calls from 50 threads with separate connections."""

    def run(times: int) -> list[object]:
        try:
            return [call() for _ in range(times)]
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as threads:
        return [result for results in threads.map(run, [calls // 50] * 50) for result in results]


def test_concurrent_requests_are_limited_to_the_burst(bucket: str) -> None:
    taken = together(500, lambda: rate_limits.consume(bucket=bucket, key="a", burst=30, per_second=0, life=HOUR))
    assert taken.count(None) == 30


def test_one_of_many_concurrent_events_is_allowed(bucket: str) -> None:
    def admit() -> float | None:
        return rate_limits.allow_once(group=bucket, key="a@b.co", interval=timedelta(seconds=60))

    assert together(200, admit).count(None) == 1
    pass_time(61)
    assert together(200, admit).count(None) == 1
