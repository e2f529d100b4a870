"""Limits the time for which a request or job waits for an answer of the database.

`statement_timeout` belongs to the server: it has no effect while the server is frozen, or behind a broken network.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from authsvc import conf

_MARGIN_SECONDS = 1.0


class _Thread(threading.local):
    serves_requests = False
    seconds: float | None = None


_thread = _Thread()


def apply_to_request_thread() -> None:
    """This thread serves requests, whose statements are limited; those of commands and of index building are not."""
    _thread.serves_requests = True


def limit_this_thread(seconds: float) -> None:
    """Statements of this thread, which serves no request, wait so long at most."""
    _thread.seconds = seconds


@contextlib.contextmanager
def unlimited() -> Iterator[None]:
    """Statements of this thread wait without limit in the block: changes of tables that scan their rows."""
    limit, _thread.seconds = _thread.seconds, None
    try:
        yield
    finally:
        _thread.seconds = limit


def seconds() -> float | None:
    """For a request, a little longer than it may take; None without a limit."""
    if not _thread.serves_requests:
        return _thread.seconds
    limit = conf.current().api.max_request_duration.total_seconds()
    return limit + _MARGIN_SECONDS if limit > 0 else None
