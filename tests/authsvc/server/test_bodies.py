"""Limits of request bodies while they arrive; `tests/security/test_stalled_clients.py` sends them to real servers."""

from __future__ import annotations

import pytest

from authsvc.server import bodies


@pytest.mark.parametrize(
    ("size", "seconds", "limit", "expected"),
    [
        (0, 15, 15, False),
        (1_000_000, 15.1, 15, True),
        (0, 14, 60, False),
        (20 * 1024 - 1, 20, 60, True),
        (20 * 1024, 20, 60, False),
        (0, 2, 1, True),
    ],
)
def test_a_body_has_a_time_limit_and_a_minimum_rate(size: int, seconds: float, limit: float, expected: bool) -> None:
    assert bodies.is_too_slow(size=size, seconds=seconds, limit=limit) is expected


def test_the_bytes_of_all_bodies_are_limited() -> None:
    received = bodies.Bodies()
    assert received.count(bodies.MAX_BUFFERED_BYTES - 1)
    assert not received.count(2)
    assert received.count(1)
    assert received.count(-2)
    assert received.count(2)
