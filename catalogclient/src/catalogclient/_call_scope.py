"""Limits of the running call: timeout, deadline and the closed flag of its catalog.

The scope is a context variable, so that authentication managers obey the same limits when they request tokens.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from catalogclient._options import Timeout
from catalogclient.errors import ClientClosedError, RequestTimeoutError


@dataclass(slots=True)
class CallScope:
    """Limits of one call with all its requests, token requests and delays."""

    timeout: Timeout
    deadline: float | None
    """Time of the monotonic clock."""
    closed: threading.Event
    """Set when the catalog is closed."""
    applied_token: str | None = None
    """Bearer token of the last request."""

    def remaining(self) -> float | None:
        """Return the seconds until the deadline. Raises RequestTimeoutError after the deadline."""
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise RequestTimeoutError("Network request failed: deadline exceeded", phase="total")
        return left


def sleep(seconds: float, closed: threading.Event) -> None:
    """Block the thread. Raises ClientClosedError if `closed` is set meanwhile."""
    if closed.wait(min(seconds, threading.TIMEOUT_MAX)):
        raise ClientClosedError("the catalog was closed")


_current: ContextVar[CallScope | None] = ContextVar("catalogclient_call_scope", default=None)


def current() -> CallScope | None:
    """Return the scope of the running call, or None outside a call."""
    return _current.get()


@contextlib.contextmanager
def enter(timeout: Timeout, total_timeout: float | None, closed: threading.Event) -> Iterator[CallScope]:
    """Start a call. A call inside another call keeps the deadline of the outer call if it is earlier."""
    outer = _current.get()
    deadline = None if total_timeout is None else time.monotonic() + total_timeout
    if outer is not None and outer.deadline is not None:
        deadline = outer.deadline if deadline is None else min(deadline, outer.deadline)
    scope = CallScope(timeout, deadline, closed)
    token = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(token)
