"""Client requests to a TLS proxy: from a chosen address, with forged headers, slow or continuous."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "auth.example.com"
"""The host name in the proxies' example files."""
CLIENT_ADDRESS = "127.0.0.2"
"""A loopback address for clients that differs from the proxy's address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Addresses of the TLS and plain listeners, and the CA of the certificate."""

    port: int
    plain_port: int
    authority: Path

    def connect(self) -> ssl.SSLSocket:
        """A verified TLS connection."""
        context = ssl.create_default_context(cafile=str(self.authority))
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(CLIENT_ADDRESS, 0))
        return context.wrap_socket(plain, server_hostname=NAME)

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers with lower-case names, and the JSON body, or None if there is none."""
        with contextlib.closing(self.client()) as client:
            return ask(client, method, path, body, headers)

    def client(self) -> http.client.HTTPConnection:
        """A connection for several requests."""
        client = http.client.HTTPConnection(NAME, timeout=30)
        client.sock = self.connect()
        return client


def ask(
    client: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, str], Any]:
    """Send one request on this connection.

    A server may answer and close before it has read a body that is too large; the answer is read in that case too.
    """
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.request(method, path, body or None, {"Host": NAME, **(headers or {})})
    response = client.getresponse()
    text = response.read()
    response_headers = {name.lower(): value for name, value in response.getheaders()}
    return (
        response.status,
        response_headers,
        json.loads(text) if "json" in response_headers.get("content-type", "") else None,
    )


@contextlib.contextmanager
def slow_clients(proxy: Proxy, number: int) -> Iterator[None]:
    """This many clients, each of which has sent only half of a request."""
    head = f"POST /recover HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with contextlib.ExitStack() as open_ones:
        for _ in range(number):
            connection = open_ones.enter_context(proxy.connect())
            connection.sendall(head.encode() + b'{"email":')
        yield
