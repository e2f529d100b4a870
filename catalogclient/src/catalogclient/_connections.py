"""Connections that limit every wait to the deadline of the call and record if a request was sent.

The timeouts of urllib3 apply to single reads, so a server that sends one byte at a time would exceed the deadline.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

_INTERIM = (HTTPStatus.PROCESSING, HTTPStatus.EARLY_HINTS)


@dataclass(slots=True)
class Exchange:
    """Limits and progress of one attempt."""

    read: float | None = None
    """Timeout for the next bytes, in seconds."""
    deadline: float | None = None
    """Deadline of the call, on the monotonic clock."""
    sent: bool | None = False
    """True once the first byte of the request was sent. None if it is unknown."""

    def remaining(self, limit: float | None) -> float | None:
        """Return `limit` cut to the time until the deadline. Raises TimeoutError after the deadline."""
        if self.deadline is None:
            return limit
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("deadline exceeded")
        return left if limit is None else min(left, limit)


class _ThreadLocal(threading.local):
    exchange = Exchange()


_local = _ThreadLocal()


def begin(exchange: Exchange) -> None:
    """Assign `exchange` to the connections that this thread uses from now on."""
    _local.exchange = exchange


class _Incoming(io.RawIOBase):
    """Stream of the bytes of one response."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_local.exchange.remaining(_local.exchange.read))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    fp: io.BufferedReader

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Incoming(sock, self.fp.detach()))

    def _read_status(self) -> tuple[str, int, str]:
        """Skip the interim responses that the base class takes for final ones (RFC 9110 §15.2)."""
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]  # not in its stub
            if status not in _INTERIM:
                return version, status, reason
            http.client.parse_headers(self.fp)


class _Connection(HTTPConnection):
    response_class = _Response

    def connect(self) -> None:
        try:
            super().connect()
        finally:
            # The CONNECT request to a proxy is not part of the request.
            _local.exchange.sent = False

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        else:
            self.sock.settimeout(_local.exchange.remaining(_local.exchange.read))
        _local.exchange.sent = True
        super().send(data)


class _TlsConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


# The type of ConnectionCls that urllib3 declares does not match its own connections in pyright.
class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType]


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection  # pyright: ignore[reportAssignmentType]


POOLS: dict[str, type[urllib3.HTTPConnectionPool]] = {"http": _Pool, "https": _TlsPool}
"""Pool class for each URL scheme."""
