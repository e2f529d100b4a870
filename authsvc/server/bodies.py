"""Receives request bodies without threads: within a time limit, at a minimum rate and in bounded memory."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from typing import Any

from authsvc import conf
from authsvc.api.parsing import MAX_BODY, REQUEST_ERROR
from authsvc.errors import ApiError, BodyTooLarge, RequestBodyTimedOut, ServiceBusy, ValidationFailed

MIN_BYTES_PER_SECOND = 1024
RATE_GRACE_SECONDS = 15
"""Seconds before the rate counts, because a lost packet delays the few bytes of an ordinary body by seconds."""
UNCOUNTED_BYTES = 16_384
"""The part of each body that the limit does not count, so that large bodies leave room for ordinary requests."""
MAX_BUFFERED_BYTES = 64 * 1_048_576
"""Limit of the further bytes of all bodies of a process, until their requests are answered."""
MAX_DISCARDED_BYTES = 4 * MAX_BODY
"""The part of a body too large that is received and discarded.

A connection that is closed while its client sends is reset, and the client or its proxy may lose the response.
"""
RETRY_SECONDS = 5
INCOMPLETE = "The request body is incomplete"

BodyOrError = bytes | ApiError


def is_too_slow(*, size: int, seconds: float, limit: float) -> bool:
    """True if a body, of which `size` bytes have arrived in `seconds`, must not be waited for any longer."""
    return seconds > limit or (seconds > RATE_GRACE_SECONDS and size < MIN_BYTES_PER_SECOND * seconds)


def store(outcome: BodyOrError, environ: dict[str, Any]) -> None:
    """Write the content of a body, or its error, into the WSGI environment of its request."""
    if isinstance(outcome, ApiError):
        environ[REQUEST_ERROR] = outcome
        return
    # Django reads a body without a length as empty.
    environ["CONTENT_LENGTH"] = str(len(outcome))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ["wsgi.input"] = io.BytesIO(outcome)


class RequestBody:
    """The body of one request, of `length` bytes; None = unknown (chunked).

    `on_end` receives the content, or the error because of which there is none, exactly once.
    """

    def __init__(
        self, protocol: Any, *, length: int | None, bodies: Bodies, on_end: Callable[[BodyOrError], None]
    ) -> None:
        self._protocol = aiter(protocol)
        self._length = length
        self._bodies = bodies
        self._on_end = on_end
        self._chunks: list[bytes] = []
        self._size = 0
        self._counted = 0
        self._started = time.monotonic()
        self._limit = conf.current().api.request_body_timeout.total_seconds()
        self._future: Any = None
        # granian's thread adds chunks while the monitor checks the time.
        self._lock = threading.RLock()
        self._has_ended = False

    def receive(self) -> None:
        """Request the next chunk from granian."""
        with self._lock:
            try:
                self._future = self._protocol.__anext__()
            except StopAsyncIteration:
                self._complete()
            else:
                self._future.add_done_callback(self._add)

    def check_time(self, now: float) -> None:
        """End the reception if it takes too long."""
        with self._lock:
            is_late = is_too_slow(size=self._size, seconds=now - self._started, limit=self._limit)
            if is_late and not self._has_ended:
                future = self._future
                self._end(RequestBodyTimedOut())
                future.cancel()

    def discard(self) -> None:
        """Release the memory that the body counts for."""
        self._bodies.count(-self._counted)
        self._counted = 0

    def _add(self, future: Any) -> None:
        with self._lock:
            if self._has_ended:
                return
            try:
                chunk: bytes = future.result()
            except RuntimeError:  # the connection has ended
                self._end(ValidationFailed(INCOMPLETE))
                return
            if not chunk:
                self._end_stream()
                return
            self._size += len(chunk)
            if self._size > MAX_BODY:
                self._chunks.clear()
                self.discard()
                if self._size >= (self._length or MAX_DISCARDED_BYTES):
                    self._end(BodyTooLarge())
                else:
                    self.receive()
                return
            self._chunks.append(chunk)
            counted = max(0, self._size - UNCOUNTED_BYTES)
            if not self._bodies.count(counted - self._counted):
                self._end(ServiceBusy(retry_after=RETRY_SECONDS))
            else:
                self._counted = counted
                if self._size == self._length:
                    self._complete()
                else:
                    self.receive()

    def _end_stream(self) -> None:
        """Complete the body if its stream is exhausted; otherwise the connection has ended within the body."""
        try:
            self._protocol.__anext__()
        except StopAsyncIteration:
            self._complete()
        else:
            self._end(ValidationFailed(INCOMPLETE))

    def _complete(self) -> None:
        if self._size > MAX_BODY:
            self._end(BodyTooLarge())
            return
        is_complete = self._length is None or self._size == self._length
        self._end(b"".join(self._chunks) if is_complete else ValidationFailed(INCOMPLETE))

    def _end(self, outcome: BodyOrError) -> None:
        self._has_ended = True
        self._chunks.clear()
        if isinstance(outcome, ApiError):
            self.discard()
        self._bodies.remove(self)
        on_end = self._on_end
        # granian closes the connection of an unfinished body only when nothing refers to its protocol any longer.
        del self._protocol, self._future, self._on_end
        on_end(outcome)


class Bodies:
    """The bodies that a process is receiving, and the memory that they take."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._receiving: set[RequestBody] = set()
        self._buffered = 0

    def receive(self, body: RequestBody) -> None:
        """Start to receive the body of a request."""
        with self._lock:
            self._receiving.add(body)
        body.receive()

    def check_times(self) -> None:
        """End the receptions that take too long; must be called about every second."""
        with self._lock:
            receiving = list(self._receiving)
        now = time.monotonic()
        for body in receiving:
            body.check_time(now)

    def remove(self, body: RequestBody) -> None:
        with self._lock:
            self._receiving.discard(body)

    def count(self, size: int) -> bool:
        """Count bytes that are buffered, or no longer. Returns False, and counts nothing, beyond the limit."""
        with self._lock:
            if size > 0 and self._buffered + size > MAX_BUFFERED_BYTES:
                return False
            self._buffered += size
            return True
