"""Limits the time for which a request or job waits for an answer of the database.

`statement_timeout` belongs to the server: it has no effect while the server is frozen, or behind a broken network.
"""

from __future__ import annotations

import threading

from authsvc import conf

_MARGIN_SECONDS = 1.0
JOB_SECONDS = 30.0
"""Jobs change rows in batches, so none of their statements takes as long."""


class _Thread(threading.local):
    serves_requests = False
    runs_jobs = False


_thread = _Thread()


def apply_to_this_thread() -> None:
    """The thread serves requests, whose statements are limited; those of commands and of index building are not."""
    _thread.serves_requests = True


def apply_to_job_thread() -> None:
    """This thread runs jobs. One that waited without limit would hold all further jobs of its worker."""
    _thread.runs_jobs = True


def seconds() -> float | None:
    """For a request, a little longer than it may take; None without a limit."""
    if _thread.runs_jobs:
        return JOB_SECONDS
    if not _thread.serves_requests:
        return None
    limit = conf.current().api.max_request_duration.total_seconds()
    return limit + _MARGIN_SECONDS if limit > 0 else None
