"""Requests of servers that read them in threads of their own (gunicorn): a slot is taken once the body has arrived.

A client that stalls occupies one of the server's threads until the time limits end it. There are more threads than
slots, but not as many as connections, so such a server needs a proxy that buffers requests and responses.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from authsvc import conf
from authsvc.api.parsing import MAX_BODY, REQUEST_ERROR
from authsvc.errors import ApiError, BodyTooLarge, RequestBodyTimedOut, ValidationFailed
from authsvc.observability import metrics
from authsvc.observability.arrival import ARRIVED
from authsvc.server import bodies, reload
from authsvc.server.bodies import INCOMPLETE, MAX_DISCARDED_BYTES, BodyOrError, is_too_slow
from authsvc.server.request_slots import RequestSlots
from authsvc.server.stalled_connections import ConnectionMonitor, has_disconnected, seconds_since_received

THREADS = 64
"""Per process: those of slots, of requests that wait for other servers, and of clients that send or read slowly."""
MAX_WAITING_THREADS = THREADS // 4
"""With the requests that the bulkhead limits, they leave threads to other requests."""
_SHORT_WAIT_SECONDS = 0.1
"""Time after which a client may have given up."""
_CHUNK_BYTES = 16_384

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_receiving: set[_Reception] = set()
_lock = threading.Lock()
_monitor: ConnectionMonitor | None = None
_regular_tasks: list[Callable[[], None]] = []


def start_monitor(port: int) -> None:
    """Enforce the time limits of connections for as long as this process lives."""
    global _monitor
    _monitor = ConnectionMonitor(port=port, tasks=tuple(_regular_tasks))
    _monitor.start()


def wrap(application: Application, slots: RequestSlots) -> Application:
    """The application with a limit of the requests that run at a time."""
    slots.max_waiting_threads = MAX_WAITING_THREADS
    _regular_tasks[:] = _check_times, slots.count_waiting

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        peer = f"{environ.get('REMOTE_ADDR')}:{environ.get('REMOTE_PORT')}"
        if _monitor is not None:
            _monitor.active.add(peer)
        environ[reload.SETTINGS] = conf.newest()
        connection: socket.socket | None = environ.get("gunicorn.socket")
        try:
            _receive_body(environ)
            environ[ARRIVED] = time.monotonic()
            if REQUEST_ERROR not in environ:
                # The request may have waited for its thread.
                environ[ARRIVED] -= seconds_since_received(connection)
            needs_slot = environ.get("PATH_INFO") != "/health"
            with slots.hold() if needs_slot else contextlib.nullcontext():
                if time.monotonic() - environ[ARRIVED] > _SHORT_WAIT_SECONDS and has_disconnected(connection):
                    metrics.ABANDONED_REQUESTS.inc()
                    start_response("503 Service Unavailable", [("Connection", "close")])
                    return []
                chunks = application(environ, start_response)
                if getattr(chunks, "streaming", False):
                    return _stream(chunks, environ, slots)
                try:
                    body = b"".join(chunks)
                    # gunicorn logs a warning for a body that it has to drop.
                    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
                finally:
                    if hasattr(chunks, "close"):
                        chunks.close()
        finally:
            if _monitor is not None:
                _monitor.active.discard(peer)

    return serve


def _stream(response: Any, environ: dict[str, Any], slots: RequestSlots) -> Iterator[bytes]:
    """The chunks of a response that is sent while it is written: each takes a slot, which is free while it is sent."""
    chunks = iter(response)
    with contextlib.closing(response):
        while True:
            with slots.hold(), conf.keep(environ[reload.SETTINGS]):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


def _receive_body(environ: dict[str, Any]) -> None:
    """Replace the stream of the body by its content, or set the error because of which there is none."""
    is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
    length = None if is_chunked else int(environ.get("CONTENT_LENGTH") or 0)
    if length == 0:
        return
    if length is not None and length > MAX_DISCARDED_BYTES:
        outcome: BodyOrError = BodyTooLarge()
    else:
        reception = _Reception(environ, length)
        with _lock:
            _receiving.add(reception)
        try:
            outcome = reception.read()
        finally:
            with _lock:
                _receiving.discard(reception)
    bodies.store(outcome, environ)


class _Reception:
    """The body of one request, of `length` bytes; None = unknown (chunked)."""

    def __init__(self, environ: dict[str, Any], length: int | None) -> None:
        self._stream = environ["wsgi.input"]
        self._connection: socket.socket | None = environ.get("gunicorn.socket")
        self._length = length
        self._size = 0
        self._started = time.monotonic()
        self._limit = conf.current().api.request_body_timeout.total_seconds()
        self._is_late = False

    def read(self) -> BodyOrError:
        chunks: list[bytes] = []
        try:
            while self._size != self._length and (chunk := self._stream.read(self._next_size())):
                self._size += len(chunk)
                if self._size > MAX_BODY:
                    chunks.clear()
                    if self._size >= MAX_DISCARDED_BYTES:
                        return BodyTooLarge()
                else:
                    chunks.append(chunk)
        except OSError:  # the connection has ended, or the framing is invalid
            return self._failure()
        if self._size > MAX_BODY and not self._is_late:
            return BodyTooLarge()
        if self._is_late or (self._length is not None and self._size != self._length):
            return self._failure()
        return b"".join(chunks)

    def check_time(self, now: float) -> None:
        """Close the reading side of the connection if the body takes too long."""
        if is_too_slow(size=self._size, seconds=now - self._started, limit=self._limit):
            self._is_late = True
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RD)

    def _next_size(self) -> int:
        # The stream waits until so many bytes have arrived.
        end = MAX_DISCARDED_BYTES if self._length is None else self._length
        return min(_CHUNK_BYTES, end - self._size)

    def _failure(self) -> ApiError:
        return RequestBodyTimedOut() if self._is_late else ValidationFailed(INCOMPLETE)


def _check_times() -> None:
    with _lock:
        receiving = list(_receiving)
    now = time.monotonic()
    for reception in receiving:
        reception.check_time(now)
