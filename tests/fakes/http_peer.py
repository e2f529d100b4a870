"""Fake HTTP servers with configurable responses that record their requests.

`HttpPeer` listens on loopback; it can also hang, drip, and send malformed responses. `MockedServer` answers within the
process, through the library `responses`, for tests that need none of these.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import requests
import responses


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One response. Content-Length is added unless `headers` define the body length."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes | None = None
    """Sent instead of an HTTP response."""
    drip: float = 0.0
    """Seconds before each single byte sent, including the head."""
    delay: float = 0.0
    """Seconds before the response starts."""
    before: Callable[[], object] | None = None
    """Called before the response starts; it may wait for an event of the test."""
    hang: bool = False
    """Send no response and keep the connection open."""
    close: bool = False
    """Close the connection after the response; with `raw=b""` without any response."""


def in_json(document: Any, *, status: int = 200) -> Response:
    return Response(status=status, headers={"Content-Type": "application/json"}, body=json.dumps(document).encode())


def redirect(location: str, *, status: int = 302) -> Response:
    return Response(status=status, headers={"Location": location})


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One received request."""

    method: str
    target: str
    """Path and query of the request line."""
    headers: Message
    """Case-insensitive."""
    body: bytes
    connection: int
    """Requests with equal numbers came over the same connection."""
    client_port: int = 0
    """0 within the process."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return _first_values(urlsplit(self.target).query)

    @property
    def form(self) -> dict[str, str]:
        return _first_values(self.body.decode())

    def json(self) -> Any:
        return json.loads(self.body)


def _first_values(text: str) -> dict[str, str]:
    return {
        name: values[0] for name, values in parse_qs(text, keep_blank_values=True, strict_parsing=bool(text)).items()
    }


class FakeServer:
    """`received` holds the requests.

    `respond(...)` sets the responses to the next requests in order; the last one repeats. With `path` it applies to
    that path only. Requests without a configured response get 404.
    """

    url: str
    """Scheme, host and port, without a trailing slash."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self._responses: dict[str, list[Response]] = {}
        self._lock = threading.Lock()

    def respond(self, *responses: Response, path: str = "") -> None:
        with self._lock:
            self._responses[path] = list(responses)

    def next_response(self, received: Received) -> Response:
        with self._lock:
            self.received.append(received)
            waiting = self._responses.get(received.path) or self._responses.get("") or [Response(status=404)]
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    def wait_for_requests(self, count: int) -> None:
        """Wait until it has received so many; a client that gave up may be ahead of this server."""
        until = time.monotonic() + 60
        while len(self.received) < count:
            if time.monotonic() > until:
                raise TimeoutError(f"received {len(self.received)} of {count} requests")
            time.sleep(0.01)


class MockedServer(FakeServer):
    """Answers the requests to one origin, or to all with `url=""`, without a network."""

    def __init__(self, mock: responses.RequestsMock, *, url: str = "") -> None:
        super().__init__()
        self.url = url
        for method in ("GET", "POST"):
            mock.add_callback(method, re.compile(re.escape(url)), callback=self._respond, content_type=None)

    def _respond(self, request: requests.PreparedRequest) -> tuple[int, Mapping[str, str], bytes]:
        headers = Message()
        sent: Mapping[str, str | bytes] = request.headers
        for name, value in sent.items():
            headers[name] = value.decode() if isinstance(value, bytes) else value
        body = request.body or b""
        response = self.next_response(
            Received(
                method=request.method or "",
                target=request.path_url,
                headers=headers,
                body=body.encode() if isinstance(body, str) else body,
                connection=0,
            )
        )
        if response.before is not None:
            response.before()
        elif response != Response(status=response.status, headers=response.headers, body=response.body):
            raise TypeError("HttpPeer serves slow and malformed responses")
        return response.status, response.headers, response.body


class HttpPeer(FakeServer):
    """Runs during its `with` block, on a free port unless `port` is passed.

    `open_connections` counts the accepted connections that the server has not closed.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.host = host
        self.port = port
        self.stopping = threading.Event()
        self.open_connections = 0
        self._tls = tls
        self._server: _Server | None = None

    @property
    def url(self) -> str:  # type: ignore[override]  # known once the server listens
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._server = _Server(self, self._tls)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, peer: HttpPeer, tls: ssl.SSLContext | None) -> None:
        self.peer = peer
        self._counting = threading.Lock()
        self.numbers = itertools.count(1)
        super().__init__((peer.host, peer.port), _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.count_connections(1)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.count_connections(-1)

    def count_connections(self, change: int) -> None:
        with self._counting:
            self.peer.open_connections += change

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that closed the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.number = next(self.server.numbers)

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._respond
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        response = self.server.peer.next_response(
            Received(
                method=self.command,
                target=self.path,
                headers=self.headers,
                body=body,
                connection=self.number,
                client_port=self.client_address[1],
            )
        )
        stopping = self.server.peer.stopping
        stopping.wait(None if response.hang else response.delay)
        if response.before is not None:
            response.before()
        sent = response.raw if response.raw is not None else self._message(response)
        if response.drip:
            for byte in sent:
                if stopping.wait(response.drip):
                    break
                self.wfile.write(bytes([byte]))
        else:
            self.wfile.write(sent)
        self.close_connection = response.close or response.raw is not None

    def _message(self, response: Response) -> bytes:
        headers = dict(response.headers)
        if not {"content-length", "transfer-encoding"} & {name.lower() for name in headers} and not response.close:
            headers["Content-Length"] = str(len(response.body))
        lines = [f"HTTP/1.1 {response.status} Response", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + response.body
