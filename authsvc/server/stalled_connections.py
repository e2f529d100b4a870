"""Closes connections whose client stalls: request headers that do not arrive, responses that are not read.

The HTTP servers have one timeout for silence between requests, which must be long because proxies keep connections, and
for unfinished headers, which must be short. Therefore a thread asks the kernel once a second what each connection
does (Linux, `tcp_info` of linux/tcp.h). Elsewhere the timeouts of the servers apply.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

HEADER_SECONDS = 10
"""Time for the headers of a request, from their first byte, and for the first request of a connection."""
UNREAD_SECONDS = 60
"""Time after which a connection is closed whose client acknowledges nothing of a response."""
LARGE_RESPONSE_BYTES = 65_536
MAX_UNREAD_BYTES = 64 * 1_048_576
"""Size of all large responses of a process that clients have not read, beyond which the oldest are given up."""
UNREAD_LIMIT_BYTES = 4 * MAX_UNREAD_BYTES
"""Size beyond which there are no further large responses until the oldest are given up, within a second."""
_INTERVAL_SECONDS = 1.0
_ESTABLISHED = 1
_INFO_BYTES = 160
# u8 tcpi_state; u32 tcpi_unacked; u32 tcpi_last_data_sent, tcpi_last_data_recv; u64 tcpi_bytes_acked;
# u32 tcpi_notsent_bytes; u32 tcpi_data_segs_out. Times are milliseconds since the event.
_FORMAT = struct.Struct("=B23xI16xI4xI64xQ16xI8xI")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stall:
    """A connection that has not proceeded since a time."""

    since: float
    progress: int
    """Changes when the connection proceeds."""


class ConnectionMonitor:
    """The connections of a serving process. `tasks` are called about once a second."""

    def __init__(
        self,
        *,
        port: int,
        tasks: tuple[Callable[[], None], ...] = (),
        max_unread_bytes: int = MAX_UNREAD_BYTES,
        unread_limit_bytes: int = UNREAD_LIMIT_BYTES,
    ) -> None:
        self.active: set[str] = set()
        """Peers (`address:port`) with a request that has arrived and has no response yet."""
        self._port = port
        self._tasks = tasks
        self._max_unread_bytes = max_unread_bytes
        self._unread_limit_bytes = unread_limit_bytes
        self._unread: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()
        self._stalls: dict[tuple[str, bool], _Stall] = {}

    def start(self) -> None:
        """Monitor for as long as this process lives."""
        threading.Thread(target=self._run, name="connections", daemon=True).start()

    def count_response(self, peer: str, size: int) -> bool:
        """Count a response until its client has read it. Returns False if too much is unread for another one."""
        if size <= LARGE_RESPONSE_BYTES or sys.platform != "linux":
            return True
        with self._lock:
            if self._unread_bytes() + size > self._unread_limit_bytes:
                return False
            self._unread[peer] = size, time.monotonic()
        return True

    def close(self, peer: str) -> None:
        """Close the connection of a peer at once, so that its client notices that a response is incomplete."""
        number = self.find(peer)
        if number is not None:
            self._close(number, peer)

    def find(self, peer: str) -> int | None:
        """The descriptor of an open connection; Linux only. Its time grows with the number of connections."""
        numbers = _descriptors() if sys.platform == "linux" else []
        return next((number for number in numbers if self.count_acknowledged(number, peer) is not None), None)

    def count_acknowledged(self, number: int, peer: str) -> int | None:
        """The bytes that the connection of a peer has transmitted since its start, None if it has ended."""
        info = _tcp_info(number)
        is_open = info is not None and info[0] == _ESTABLISHED and self._peer(number) == peer
        return info[4] if info is not None and is_open else None

    def check(self, now: float) -> None:
        """Close the connections that have stalled too long."""
        stalls: dict[tuple[str, bool], _Stall] = {}
        unread: dict[str, int] = {}
        for number in _descriptors():
            info = _tcp_info(number)
            if info is None or info[0] != _ESTABLISHED:
                continue
            _, unacked, sent_ago, received_ago, bytes_acked, unsent, segments_sent = info
            is_unread = bool(unacked or unsent)
            # The server has sent nothing since it received something.
            is_reading = not segments_sent or received_ago < sent_ago
            if not (is_unread or is_reading):
                continue
            peer = self._peer(number)
            if peer is None or (peer in self.active and not is_unread):
                continue
            if is_unread:
                unread[peer] = number
            progress = bytes_acked if is_unread else segments_sent
            stall = self._stalls.get((peer, is_unread))
            if stall is None or stall.progress != progress:
                stall = _Stall(now, progress)
            stalls[peer, is_unread] = stall
            if now - stall.since >= (UNREAD_SECONDS if is_unread else HEADER_SECONDS):
                self._close(number, peer)
        self._stalls = stalls
        self._give_up_responses(unread, now)

    def _give_up_responses(self, unread: dict[str, int], now: float) -> None:
        """Forget the responses that have been read, and close the oldest connections while too much is unread.

        `unread` maps the peers to which something is unsent or unacknowledged to the descriptors of their connections.
        """
        with self._lock:
            for peer, (_, sent_at) in list(self._unread.items()):
                # The kernel may not have received the response yet.
                if peer not in unread and now - sent_at > 2 * _INTERVAL_SECONDS:
                    del self._unread[peer]
            closing = []
            while self._unread_bytes() > self._max_unread_bytes:
                peer = min(self._unread, key=lambda peer: self._unread[peer][1])
                del self._unread[peer]
                closing.append(peer)
        for peer in closing:
            if peer in unread:
                self._close(unread[peer], peer)

    def _unread_bytes(self) -> int:
        return sum(size for size, _ in self._unread.values())

    def _run(self) -> None:
        while True:
            time.sleep(_INTERVAL_SECONDS)
            try:
                for task in self._tasks:
                    task()
                if sys.platform == "linux":
                    self.check(time.monotonic())
            except Exception:
                logger.exception("connections are not monitored")

    def _peer(self, number: int) -> str | None:
        """The peer of a connection to this server, None for another connection."""
        try:
            connection = socket.socket(fileno=number)
            try:
                port = connection.getsockname()[1]
                host, peer_port = connection.getpeername()[:2]
            finally:
                connection.detach()
        except OSError:
            return None
        return None if port != self._port else f"[{host}]:{peer_port}" if ":" in host else f"{host}:{peer_port}"

    def _close(self, number: int, peer: str) -> None:
        # The server may have closed the connection meanwhile, and another may have its number.
        with contextlib.suppress(OSError):
            duplicate = os.dup(number)
            with socket.socket(fileno=duplicate) as connection:
                if self._peer(duplicate) == peer:
                    connection.shutdown(socket.SHUT_RDWR)


def seconds_since_received(connection: socket.socket | None) -> float:
    """The time for which nothing has arrived on a connection; Linux only, else 0."""
    info = _tcp_info(connection.fileno()) if connection is not None and sys.platform == "linux" else None
    return 0 if info is None else info[3] / 1000


def has_disconnected(connection: socket.socket | None) -> bool:
    """True if the client has closed its connection; Linux only, else False."""
    info = _tcp_info(connection.fileno()) if connection is not None and sys.platform == "linux" else None
    return info is not None and info[0] != _ESTABLISHED


def _descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208  (paths cost ten times as much)


def _tcp_info(number: int) -> tuple[int, ...] | None:
    try:
        # The family does not matter here, and finding it out takes three calls.
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=number)
        try:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        finally:
            connection.detach()
    except OSError:
        return None
    return _FORMAT.unpack(info) if len(info) == _INFO_BYTES else None
