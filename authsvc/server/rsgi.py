"""Serves the WSGI application through granian's RSGI interface, with a thread only for complete requests.

granian parses requests and writes responses in its own threads. A request takes a slot, and with it a thread, once its
body has arrived, so slow clients occupy neither. There is no event loop: granian's futures call back directly.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from authsvc import conf
from authsvc.api.parsing import REQUEST_ERROR
from authsvc.errors import BodyTooLarge, ServiceBusy, ValidationFailed
from authsvc.observability import metrics
from authsvc.observability.arrival import ARRIVED
from authsvc.outgoing import bulkhead
from authsvc.server import bodies, reload, serving
from authsvc.server.bodies import MAX_DISCARDED_BYTES, Bodies, BodyOrError, RequestBody
from authsvc.server.request_slots import RequestSlots
from authsvc.server.stalled_connections import ConnectionMonitor

MAX_STREAMS = 4
"""Streamed responses of a process at a time: each has a thread, and a slot while its next chunk is written."""
MAX_STREAM_SECONDS = 600.0
"""Time that a client may take to read a streamed response. One that reads nothing is disconnected earlier."""
MAX_UNREAD_STREAM_BYTES = 1_048_576
"""Part of a streamed response that waits for its client in memory."""
_POLL_SECONDS = 0.02

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

logger = logging.getLogger(__name__)


class Requests:
    """The requests of a serving process, from the arrival of their headers to their response."""

    def __init__(self, application: Application, *, slots: RequestSlots, port: int) -> None:
        self._application = application
        self._slots = slots
        self._liveness_slots = RequestSlots(serving.LIVENESS_THREADS)
        self._environ = _base_environ(port)
        self._bodies = Bodies()
        self._streams = threading.BoundedSemaphore(MAX_STREAMS)
        self.monitor = ConnectionMonitor(port=port, tasks=(self._bodies.check_times, slots.count_waiting))

    def start(self) -> None:
        """Start the threads of this process. Raises RuntimeError where the system does not permit them."""
        self._slots.start_threads()
        self._liveness_slots.start_threads()
        self.monitor.start()

    def schedule(self, watcher: Any) -> None:
        """Receive a request whose headers have arrived. granian calls this in a thread that must not block."""
        request = _Request(watcher.proto, watcher.scope.client)
        try:
            request.environ = self._environ | read_scope(watcher.scope)
            request.environ[reload.SETTINGS] = conf.newest()
            self.monitor.active.add(request.peer)
            if "CONTENT_LENGTH" in request.environ or "HTTP_TRANSFER_ENCODING" in request.environ:
                self._receive_body(request)
            else:
                self._submit(request)
        except Exception:
            logger.exception("request failed")
            self._respond(request, 500, [], b"")

    def _receive_body(self, request: _Request) -> None:
        is_chunked = "HTTP_TRANSFER_ENCODING" in request.environ
        length = None if is_chunked else int(request.environ["CONTENT_LENGTH"])
        if length is not None and length > MAX_DISCARDED_BYTES:
            request.environ[REQUEST_ERROR] = BodyTooLarge()
            self._submit(request)
        elif length == 0:
            self._submit(request)
        else:
            on_end = functools.partial(self._add_body, request)
            request.body = RequestBody(request.protocol, length=length, bodies=self._bodies, on_end=on_end)
            self._bodies.receive(request.body)

    def _add_body(self, request: _Request, outcome: BodyOrError) -> None:
        bodies.store(outcome, request.environ)
        self._submit(request)

    def _submit(self, request: _Request) -> None:
        slots = self._liveness_slots if request.environ["PATH_INFO"] == "/health" else self._slots
        request.environ[ARRIVED] = time.monotonic()
        if slots.are_taken:
            # Not for every request, because it is a hundredth of the time of a short one.
            request.disconnection = request.protocol.client_disconnect()
        slots.submit(functools.partial(self._serve, request))

    def _serve(self, request: _Request) -> None:
        """Run a request in its slot, and send or stream the response. Skips it if the client has disconnected."""
        if request.disconnection is not None:
            if request.disconnection.done():
                metrics.ABANDONED_REQUESTS.inc()
                self._forget(request)
                return
            # Otherwise it would stay in memory.
            request.disconnection.cancel()
        try:
            status, headers, content = respond(self._application, request.environ)
            if not isinstance(content, bytes):
                if self._streams.acquire(blocking=False):
                    self._stream(request, status, headers, content)
                    return
                content.close()
                status, headers, content = self._refuse(request)
            elif not self.monitor.count_response(request.peer, len(content)):
                status, headers, content = self._refuse(request)
            if REQUEST_ERROR in request.environ:
                headers = [*headers, ("Connection", "close")]
            self._respond(request, status, headers, content)
        except Exception:
            logger.exception("request failed")
            self._respond(request, 500, [], b"")

    def _refuse(self, request: _Request) -> tuple[int, list[tuple[str, str]], bytes]:
        request.environ[REQUEST_ERROR] = ServiceBusy(retry_after=bulkhead.RETRY_SECONDS)
        return respond(self._application, request.environ)

    def _stream(self, request: _Request, status: int, headers: list[tuple[str, str]], response: Any) -> None:
        """Send a response while it is written. A failure ends the connection, so that the client notices it."""
        chunks: Iterator[bytes] = iter(response)
        try:
            with contextlib.closing(response), conf.keep(request.environ[reload.SETTINGS]):
                chunk: bytes | None = next(chunks, b"")
                number = self.monitor.find(request.peer)
                acknowledged = 0 if number is None else self.monitor.count_acknowledged(number, request.peer) or 0
                transport = request.protocol.response_stream(status, headers)
                try:
                    deadline = time.monotonic() + MAX_STREAM_SECONDS
                    while chunk is not None:
                        transport.send_bytes(chunk)
                        acknowledged += len(chunk)
                        with bulkhead.leave_slot():
                            self._wait_for_client(
                                number, request.peer, acknowledged - MAX_UNREAD_STREAM_BYTES, deadline=deadline
                            )
                        chunk = next(chunks, None)
                except Exception as error:
                    is_failure = not isinstance(error, (ConnectionError, TimeoutError))
                    level = logging.ERROR if is_failure else logging.INFO
                    logger.log(level, "response is incomplete", exc_info=is_failure, extra={"error": str(error)})
                    self.monitor.close(request.peer)
        finally:
            self._streams.release()
            self.monitor.active.discard(request.peer)

    def _wait_for_client(self, number: int | None, peer: str, acknowledged: int, *, deadline: float) -> None:
        """Wait until a client has received so many bytes on its connection, because granian buffers without limit.

        Raises ConnectionError if it disconnects, TimeoutError after the deadline.
        """
        while sys.platform == "linux":
            # Only its own descriptor, because a search among thousands would take much of the process.
            received = None if number is None else self.monitor.count_acknowledged(number, peer)
            if received is None:
                raise ConnectionError("the client has disconnected")
            if received >= acknowledged:
                return
            if time.monotonic() > deadline:
                raise TimeoutError("the client reads too slowly")
            time.sleep(_POLL_SECONDS)

    def _respond(self, request: _Request, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        # First, because the client may send its next request at once.
        self._forget(request)
        request.protocol.response_bytes(status, headers, content)

    def _forget(self, request: _Request) -> None:
        self.monitor.active.discard(request.peer)
        if request.body is not None:
            request.body.discard()


class _Request:
    """A request between its arrival and its response."""

    __slots__ = ("body", "disconnection", "environ", "peer", "protocol")

    def __init__(self, protocol: Any, peer: str) -> None:
        self.protocol = protocol
        self.peer = peer
        self.environ: dict[str, Any] = {}
        self.body: RequestBody | None = None
        self.disconnection: Any = None
        """granian's future of the end of the connection, if the request has had to wait for a slot."""


def respond(application: Application, environ: dict[str, Any]) -> tuple[int, list[tuple[str, str]], Any]:
    """Status, headers and body of the application's response; in place of the body, the response if it is streamed."""
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
        started[:] = int(status[:3]), headers

    chunks = application(environ, start_response)
    if getattr(chunks, "streaming", False):
        return started[0], started[1], chunks
    try:
        content = b"".join(chunks)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()
    return started[0], started[1], content


def read_scope(scope: Any) -> dict[str, Any]:
    """The WSGI variables of a request.

    granian leaves out header values that are not ASCII. Without its address the client would pass for the proxy that
    appended it, so such a request gets an error.
    """
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope.method,
        "PATH_INFO": _encode(scope.path),
        "QUERY_STRING": _encode(scope.query_string),
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "wsgi.input": io.BytesIO(),
    }
    names = set()
    for name, value in scope.headers.items():
        names.add(name)
        variable = variable_of(name)
        if variable in environ and variable != "CONTENT_LENGTH":
            environ[variable] += f"{'; ' if variable == 'HTTP_COOKIE' else ','}{value}"
        elif variable:
            environ[variable] = value
    if len(scope.headers) > len(names):
        with_address = {"x-forwarded-for", "svc-forwarded-for", conf.newest().limits.header.lower()}
        if with_address.intersection(scope.headers.keys()) - names:
            environ[REQUEST_ERROR] = ValidationFailed("The headers with the address of the client must be ASCII")
    return environ


@functools.lru_cache(maxsize=1024)
def variable_of(name: str) -> str:
    """The WSGI variable of a header; empty for a name with an underscore, which WSGI confuses with a hyphen.

    The API has one such name: `redirect_to`.
    """
    if "_" in name and name != "redirect_to":
        return ""
    variable = name.upper().replace("-", "_")
    return variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"


def _encode(text: str) -> str:
    """Text as WSGI passes it on: one character per byte (PEP 3333)."""
    return text if text.isascii() else text.encode().decode("latin-1")


def _base_environ(port: int) -> dict[str, Any]:
    return {
        "SCRIPT_NAME": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": str(port),
        "SERVER_SOFTWARE": "granian",
        "wsgi.errors": sys.stderr,
        "wsgi.multiprocess": True,
        "wsgi.multithread": True,
        "wsgi.run_once": False,
        "wsgi.url_scheme": "http",
        "wsgi.version": (1, 0),
    }
