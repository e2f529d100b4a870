"""Connections whose every wait is cut to what is left of the call, and which know whether a request has gone out.

The time-outs of the libraries underneath count from one byte to the next, so a peer that drips would hold a thread for
as long as it likes.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection


@dataclass(slots=True)
class Exchange:
    """One attempt, as the connections of its thread see it."""

    read: float | None = None
    """Seconds until the next bytes."""
    deadline: float | None = None
    """By the monotonic clock."""
    sent: bool | None = False
    """The request has begun to go out; None where that cannot be known."""

    def wait(self) -> float | None:
        """How long the next wait may be. Raises TimeoutError when there is no time left."""
        if self.deadline is None:
            return self.read
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("out of time")
        return left if self.read is None else min(left, self.read)


class _Thread(threading.local):
    exchange = Exchange()


_thread = _Thread()


def begin(exchange: Exchange) -> None:
    """From now on the connections of this thread serve `exchange`."""
    _thread.exchange = exchange


class _Incoming(io.RawIOBase):
    """The bytes of one answer."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_thread.exchange.wait())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    fp: io.BufferedReader

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Incoming(sock, self.fp.detach()))


class _Connection(HTTPConnection):
    response_class = _Response

    def connect(self) -> None:
        try:
            super().connect()
        finally:
            # What a tunnel through a proxy took was no part of the request.
            _thread.exchange.sent = False

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        else:
            self.sock.settimeout(_thread.exchange.wait())
        _thread.exchange.sent = True
        super().send(data)


class _TlsConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


# For pyright no connection of urllib3 is what the pools of urllib3 declare, and so none of ours.
class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType]


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection  # pyright: ignore[reportAssignmentType]


POOLS: dict[str, type[urllib3.HTTPConnectionPool]] = {"http": _Pool, "https": _TlsPool}
"""Scheme → the pool that makes and keeps its connections."""
