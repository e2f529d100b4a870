"""Connections whose client stalls, with real sockets and the passage of time simulated."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterator

import pytest

from authsvc.server.stalled_connections import HEADER_SECONDS, UNREAD_SECONDS, ConnectionMonitor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the state of connections")

SECONDS = 30
MIB = 1_048_576
ESTABLISHED = b"\x01"


class Pair:
    """A client's connection to a server, from both sides."""

    def __init__(self, listener: socket.socket) -> None:
        self.client = socket.create_connection(listener.getsockname()[:2], timeout=SECONDS)
        self.server, _ = listener.accept()
        self.server.settimeout(SECONDS)
        host, port = self.client.getsockname()[:2]
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def exchange(self) -> None:
        """A request and its response, which the client acknowledges, at different milliseconds."""
        self.client.sendall(b"request")
        assert self.server.recv(7) == b"request"
        time.sleep(0.02)
        acknowledged = bytes_acknowledged(self.server)
        self.server.sendall(b"response")
        assert self.client.recv(8) == b"response"
        while bytes_acknowledged(self.server) == acknowledged:
            time.sleep(0.001)

    def send_half(self) -> None:
        time.sleep(0.02)
        self.client.sendall(b"half")
        assert self.server.recv(4) == b"half"

    def is_open(self) -> bool:
        """True if the server has not closed the connection."""
        return self.server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == ESTABLISHED


def bytes_acknowledged(connection: socket.socket) -> int:
    """The bytes that the other side has acknowledged (`tcpi_bytes_acked`)."""
    information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
    return int.from_bytes(information[120:128], sys.byteorder)


@pytest.fixture(params=["127.0.0.1", "::1"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as listening:
        yield listening


@pytest.fixture
def monitor(listener: socket.socket) -> ConnectionMonitor:
    return ConnectionMonitor(port=listener.getsockname()[1])


@pytest.fixture
def pair(listener: socket.socket) -> Iterator[Pair]:
    made = Pair(listener)
    with made.client, made.server:
        yield made


def check_after(monitor: ConnectionMonitor, seconds: float) -> None:
    monitor.check(0)
    monitor.check(seconds)


@pytest.mark.parametrize("sends", [False, True])
def test_the_first_headers_must_arrive_in_time(monitor: ConnectionMonitor, pair: Pair, sends: bool) -> None:
    if sends:
        pair.send_half()
    check_after(monitor, HEADER_SECONDS - 1)
    assert pair.is_open()
    monitor.check(HEADER_SECONDS)
    assert not pair.is_open()


def test_later_headers_must_arrive_in_time(monitor: ConnectionMonitor, pair: Pair) -> None:
    pair.exchange()
    pair.send_half()
    check_after(monitor, HEADER_SECONDS)
    assert not pair.is_open()


def test_headers_that_trickle_must_arrive_in_time(monitor: ConnectionMonitor, pair: Pair) -> None:
    pair.exchange()
    for second in range(HEADER_SECONDS):
        pair.send_half()
        monitor.check(second)
        assert pair.is_open()
    monitor.check(HEADER_SECONDS)
    assert not pair.is_open()


def test_a_connection_without_a_request_stays_open_between_requests(monitor: ConnectionMonitor, pair: Pair) -> None:
    pair.exchange()
    check_after(monitor, 10 * HEADER_SECONDS)
    assert pair.is_open()


def test_a_request_that_has_arrived_may_take_longer(monitor: ConnectionMonitor, pair: Pair) -> None:
    pair.send_half()
    monitor.active.add(pair.peer)
    check_after(monitor, 10 * HEADER_SECONDS)
    assert pair.is_open()


def test_the_time_starts_again_with_each_request(monitor: ConnectionMonitor, pair: Pair) -> None:
    pair.send_half()
    monitor.check(0)
    pair.exchange()
    pair.send_half()
    monitor.check(HEADER_SECONDS)
    assert pair.is_open()


def test_an_unread_response_is_given_up_unless_the_client_reads(monitor: ConnectionMonitor, pair: Pair) -> None:
    pair.server.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            pair.server.sendall(bytes(MIB))
    check_after(monitor, UNREAD_SECONDS - 1)
    acknowledged = bytes_acknowledged(pair.server)
    while bytes_acknowledged(pair.server) == acknowledged:
        pair.client.recv(65_536)
    monitor.check(UNREAD_SECONDS)
    assert pair.is_open()
    # The kernel may still send bytes that the first check did not count.
    for number in (2, 3, 4):
        monitor.check(number * UNREAD_SECONDS)
    with pytest.raises(BrokenPipeError):
        pair.server.sendall(b"x")


def test_connections_to_other_servers_are_left_alone(pair: Pair) -> None:
    pair.send_half()
    check_after(ConnectionMonitor(port=1), 10 * HEADER_SECONDS)
    assert pair.is_open()


def test_the_oldest_unread_responses_are_given_up_beyond_the_limit(listener: socket.socket) -> None:
    monitor = ConnectionMonitor(port=listener.getsockname()[1], max_unread_bytes=3 * MIB, unread_limit_bytes=4 * MIB)
    with contextlib.ExitStack() as stack:
        pairs = [Pair(listener) for _ in range(5)]
        for pair in pairs:
            stack.enter_context(pair.client)
            stack.enter_context(pair.server)
            pair.server.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    pair.server.sendall(bytes(MIB))
        assert [monitor.count_response(pair.peer, MIB) for pair in pairs] == [True] * 4 + [False]
        # A small response does not count.
        assert monitor.count_response(pairs[4].peer, 1000)
        monitor.check(time.monotonic())
        with pytest.raises(BrokenPipeError):
            pairs[0].server.sendall(b"x")
        with pytest.raises(BlockingIOError):
            pairs[1].server.sendall(bytes(8 * MIB))
        assert monitor.count_response(pairs[4].peer, MIB)


def test_a_response_counts_until_it_has_been_read(listener: socket.socket, pair: Pair) -> None:
    monitor = ConnectionMonitor(port=listener.getsockname()[1], unread_limit_bytes=MIB)
    started = time.monotonic()
    assert monitor.count_response(pair.peer, MIB)
    pair.exchange()
    monitor.check(started)
    assert not monitor.count_response("192.0.2.1:1", MIB)
    monitor.check(time.monotonic() + 60)
    assert monitor.count_response("192.0.2.1:1", MIB)


def test_the_progress_of_one_connection(monitor: ConnectionMonitor, pair: Pair) -> None:
    number = monitor.find(pair.peer)
    assert number == pair.server.fileno()
    before = monitor.count_acknowledged(number, pair.peer)
    assert before is not None
    pair.exchange()
    assert monitor.count_acknowledged(number, pair.peer) == before + len(b"response")
    assert monitor.count_acknowledged(number, "192.0.2.1:1") is None
    pair.server.close()
    assert monitor.count_acknowledged(number, pair.peer) is None
    assert monitor.find(pair.peer) is None
