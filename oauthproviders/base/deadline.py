"""The deadline of outgoing calls: all calls of one request to providers share one timeout."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

from authsvc import conf
from authsvc.outgoing import http
from oauthproviders.base.contract import ProviderUnreachable

_SHARE_OF_REQUEST = 0.8

_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """All calls in the block share the timeout of one call, which starts here."""
    token = _ends_at.set(time.monotonic() + _timeout().total_seconds())
    try:
        yield
    finally:
        _ends_at.reset(token)


def remaining() -> timedelta:
    """The time left for the next call. Raises ProviderUnreachable when none is left."""
    ends_at = _ends_at.get()
    if ends_at is None:
        return _timeout()
    seconds = ends_at - time.monotonic()
    if seconds <= 0:
        raise ProviderUnreachable(http.TimedOut("timed out"))
    return timedelta(seconds=seconds)


def _timeout() -> timedelta:
    """Less than the maximum duration of a request, so that requests with a slow provider still get a response."""
    api = conf.current().api
    if api.max_request_duration <= timedelta():
        return api.internal_http_timeout
    return min(api.internal_http_timeout, api.max_request_duration * _SHARE_OF_REQUEST)
