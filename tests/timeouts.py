"""The timeout of waits in tests, and a wait for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_SECONDS = 60
"""Timeout of every wait; much longer than any operation needs."""


def wait_until(condition: Callable[[], object], expected: str) -> None:
    """Wait until `condition` holds; raise AssertionError that names `expected` after the timeout."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for: {expected}"
        time.sleep(0.05)
