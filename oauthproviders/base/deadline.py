"""How long a request may wait for other servers: one measure of time for all the calls it makes, whatever they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

from authsvc import conf
from oauthproviders.errors import Unusable

_SHARE_OF_REQUEST = 0.8

_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """All calls in the block have together what one would have alone; the clock runs from here on."""
    token = _ends_at.set(time.monotonic() + _whole().total_seconds())
    try:
        yield
    finally:
        _ends_at.reset(token)


def left() -> timedelta:
    """How long the next call may take: what the calls before it have left. Raises Unusable when it is nothing."""
    ends_at = _ends_at.get()
    if ends_at is None:
        return _whole()
    seconds = ends_at - time.monotonic()
    if seconds <= 0:
        raise Unusable("timed out")
    return timedelta(seconds=seconds)


def _whole() -> timedelta:
    """Less than a request may take, so that the answer still gets out when a provider hangs."""
    api = conf.current().api
    if api.max_request_duration <= timedelta():
        return api.internal_http_timeout
    return min(api.internal_http_timeout, api.max_request_duration * _SHARE_OF_REQUEST)
