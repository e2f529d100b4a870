"""Limits the time for which a request waits for an answer of the database.

`statement_timeout` belongs to the server: it has no effect while the server is frozen, or behind a broken network.
"""

from __future__ import annotations

import threading

from authsvc import conf

_MARGIN_SECONDS = 1.0


class _Thread(threading.local):
    serves_requests = False


_thread = _Thread()


def apply_to_this_thread() -> None:
    """The thread serves requests, whose statements are limited; those of jobs and commands are not."""
    _thread.serves_requests = True


def seconds() -> float | None:
    """A little longer than a request may take; None without a limit."""
    if not _thread.serves_requests:
        return None
    limit = conf.current().api.max_request_duration.total_seconds()
    return limit + _MARGIN_SECONDS if limit > 0 else None
