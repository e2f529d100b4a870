"""Limits the time for which a request or job waits for a response of the database.

`statement_timeout` belongs to the server: it has no effect while the server is frozen, or behind a broken network.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from authsvc import conf

_MARGIN_SECONDS = 1.0
_LOCK_PART = 0.25
"""Part of the time of a request for which one of its statements waits for a lock, since the request keeps its slot."""


class _ThreadLocal(threading.local):
    serves_requests = False
    seconds: float | None = None


_local = _ThreadLocal()


def apply_to_request_thread() -> None:
    """Limit the statements of this thread, which serves requests, by the time that a request may take."""
    _local.serves_requests = True


def limit_this_thread(seconds: float) -> None:
    """Limit each statement of this thread, which serves no requests.

    Threads of commands and loops of the worker have no limit.
    """
    _local.seconds = seconds


@contextlib.contextmanager
def unlimited() -> Iterator[None]:
    """Lift the limit of `limit_this_thread` in the block, for changes of tables that scan all rows."""
    limit, _local.seconds = _local.seconds, None
    try:
        yield
    finally:
        _local.seconds = limit


def seconds() -> float | None:
    """The limit of this thread, or None. That of a request is a little longer than the request may take."""
    if not _local.serves_requests:
        return _local.seconds
    limit = conf.current().api.max_request_duration.total_seconds()
    return limit + _MARGIN_SECONDS if limit > 0 else None


def lock_seconds() -> float | None:
    """The seconds that a statement of this thread may wait for a lock; None outside of requests or without a limit."""
    limit = conf.current().api.max_request_duration.total_seconds()
    return limit * _LOCK_PART if _local.serves_requests and limit > 0 else None
