"""Clients that send or read slowly or not at all, and a provider that never answers, keep other clients waiting."""

from __future__ import annotations

import contextlib
import itertools
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import requests

from tests.live import servers, sign_ups
from tests.live.processes import all_serving_processes, descendants
from tests.timeouts import TIMEOUT_SECONDS, wait_until

Serve = Callable[..., servers.LiveServer]

CONNECTIONS = 2000
CALLBACKS = 200
REQUESTS = 20
MIB = 1_048_576
SETTINGS = {
    "AUTH_MAILER_AUTOCONFIRM": "true",
    "AUTH_TRUSTED_PROXIES": "127.0.0.0/8",
    "AUTH_RATE_LIMIT_TOKEN_REFRESH": "1000000",
    "AUTH_EXTERNAL_FLOW_BINDING_ENABLED": "false",
}
POST = b"POST /signup HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
HALF_HEAD = b"GET /settings HTTP/1.1\r\nHost: te"
HALF_BODY = POST + b"Content-Length: 1000\r\n\r\n{"
HALF_CHUNKED_BODY = POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
UNREAD = b"GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n"


@pytest.fixture(autouse=True)
def open_files() -> Iterator[None]:
    """Permit this process and the servers that it starts as many connections as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(server: servers.LiveServer, sent: bytes, *, receive_buffer: int = 0) -> socket.socket:
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(TIMEOUT_SECONDS)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(sent)
    return connection


def sign_up(server: servers.LiveServer, email: str = "ada@example.com") -> str:
    """The access token of a new user."""
    response = sign_ups.sign_up(server, email)
    assert response is not None
    return str(response.json()["access_token"])


def get_user(server: servers.LiveServer, token: str, *, number: int = REQUESTS) -> None:
    """Request the own account on new connections."""
    for _ in range(number):
        headers = {"Authorization": f"Bearer {token}"}
        assert requests.get(f"{server.url}/user", headers=headers, timeout=TIMEOUT_SECONDS).ok


def read_to_end(connections: list[socket.socket]) -> list[bytes]:
    """The bytes that each connection receives until the server closes it. Raises AssertionError after the timeout."""
    received = dict.fromkeys(connections, b"")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while selector.get_map():
            assert time.monotonic() < deadline, f"{len(selector.get_map())} connections are still open"
            for key, _ in selector.select(1):
                connection = key.fileobj  # type: ignore[assignment]  # the socket that was registered
                try:
                    chunk = connection.recv(65536)
                except ConnectionResetError:
                    chunk = b""
                received[connection] += chunk
                if not chunk:
                    selector.unregister(connection)
    return list(received.values())


def has_input(connection: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def test_stalled_connections_delay_no_other_client_and_are_closed(serve: Serve) -> None:
    server = serve(**SETTINGS)
    all_serving_processes(server)
    token = sign_up(server)
    with contextlib.ExitStack() as stack:
        unread, heads, bodies, chunked = (
            [
                stack.enter_context(connect(server, sent, receive_buffer=4096 if sent == UNREAD else 0))
                for _ in range(CONNECTIONS // 4)
            ]
            for sent in (UNREAD, HALF_HEAD, HALF_BODY, HALF_CHUNKED_BODY)
        )
        get_user(server, token, number=1)
        # The stall has lasted longer than the request.
        assert not has_input(chunked[-1])
        get_user(server, token)

        assert set(read_to_end(heads)) == {b""}
        for response in read_to_end([*bodies, *chunked]):
            assert response.startswith(b"HTTP/1.1 408 ")
            assert b'"error_code":"request_timeout"' in response
        get_user(server, token)
        # The server keeps the connections of slow readers, as far as their responses fit into the limit of its memory.
        # It refuses requests that have waited for long, such as the last ones on a slow machine.
        assert unread[0].recv(12) == b"HTTP/1.1 200"


def test_a_slow_reader_of_a_large_list_delays_no_other_client(serve: Serve) -> None:
    server = serve(**SETTINGS, AUTH_JWT_ADMIN_ROLES="authenticated")
    token = sign_up(server)
    headers = {"Authorization": f"Bearer {token}"}
    with requests.Session() as client:
        for number in range(60):
            user = {"email": f"{number}@example.com", "user_metadata": {"text": "x" * 15_000}}
            assert client.post(f"{server.url}/admin/users", json=user, headers=headers).ok
    request = f"GET /admin/users?per_page=100 HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(connect(server, request, receive_buffer=1024)) for _ in range(20)]
        for reader in readers:
            assert reader.recv(1024).startswith(b"HTTP/1.1 200 ")
            get_user(server, token)


@pytest.fixture
def silent_provider() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers, until it is closed."""
    with socket.create_server(("127.0.0.1", 0), backlog=CALLBACKS) as listener:
        yield listener


def test_callbacks_that_wait_for_a_silent_provider_delay_no_other_client(
    serve: Serve, silent_provider: socket.socket, fresh_database_url: str
) -> None:
    provider_url = f"http://127.0.0.1:{silent_provider.getsockname()[1]}"
    server = serve(
        **SETTINGS,
        AUTH_API_MAX_REQUEST_DURATION="10m",
        AUTH_INTERNAL_HTTP_TIMEOUT="60s",
        AUTH_EXTERNAL_GITHUB_ENABLED="true",
        AUTH_EXTERNAL_GITHUB_CLIENT_ID="id",
        AUTH_EXTERNAL_GITHUB_SECRET="secret",
        AUTH_EXTERNAL_GITHUB_URL=provider_url,
        AUTH_EXTERNAL_GITHUB_REDIRECT_URI=f"{provider_url}/callback",
    )
    all_serving_processes(server)
    token = sign_up(server)
    start = requests.get(f"{server.url}/authorize?provider=github", allow_redirects=False, timeout=TIMEOUT_SECONDS)
    cookie = "; ".join(f"{name}={value}" for name, value in start.cookies.items())
    [state] = parse_qs(urlsplit(start.headers["Location"]).query)["state"]
    with contextlib.ExitStack() as stack:
        callbacks = []
        for number in range(CALLBACKS):
            head = f"GET /callback?state={state}&code=x HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
            head += f"Cookie: {cookie}\r\nX-Forwarded-For: 198.51.100.{number}\r\n\r\n"
            callbacks.append(stack.enter_context(connect(server, head.encode())))
        get_user(server, token)
        # Sixteen of each of two processes wait; the others are refused.
        wait_until(lambda: sum(map(has_input, callbacks)) >= CALLBACKS - 32, "the refused callbacks")
        assert not all(map(has_input, callbacks))
        with psycopg.connect(fresh_database_url) as connection:
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            assert (connection.execute(query).fetchone() or (0,))[0] <= 22
        silent_provider.close()
        responses = read_to_end(callbacks)
    busy = [response for response in responses if b"error_code=over_capacity" in response]
    assert len(busy) >= CALLBACKS - 32
    assert all(b"error=temporarily_unavailable" in response for response in busy)
    assert len(busy) < CALLBACKS
    get_user(server, token)


def memory_mib(server: servers.LiveServer) -> float:
    processes = [process for process in descendants(server) if "postgres" not in process.name()]
    return float(sum(process.memory_full_info().uss for process in processes) / MIB)


def test_half_sent_large_bodies_take_bounded_memory(serve: Serve) -> None:
    server = serve(**SETTINGS)
    all_serving_processes(server)
    sign_up(server)
    before = memory_mib(server)
    sent = POST + f"Content-Length: {MIB}\r\n\r\n".encode() + bytes(MIB - 1)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(300):
            connection = stack.enter_context(connect(server, b""))
            with contextlib.suppress(ConnectionError):  # the server refuses it while it arrives
                connection.sendall(sent)
            connections.append(connection)
        # The others are refused until the memory is free again.
        wait_until(lambda: sum(map(has_input, connections)) > 100, "the responses of refused requests")
        growth = memory_mib(server) - before
        assert growth < 270
        sign_up(server, "bob@example.com")


@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_a_slow_body_is_refused_and_the_limits_of_bodies_hold(http_server: str, serve: Serve) -> None:
    server = serve(http_server, **SETTINGS, AUTH_API_REQUEST_BODY_TIMEOUT="4s")
    body = b'{"email":"ada@example.com","password":"correct horse battery"}'
    length = f"Content-Length: {len(body)}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:

        def exchange(sent: bytes) -> socket.socket:
            return stack.enter_context(connect(server, sent))

        slow = [exchange(HALF_BODY), exchange(HALF_CHUNKED_BODY)]
        trickling = exchange(POST + length)
        with contextlib.suppress(ConnectionError):
            for byte in itertools.cycle(body[:1]):
                trickling.send(bytes([byte]))
                if has_input(trickling):
                    break
                time.sleep(0.2)
        for response in read_to_end([*slow, trickling]):
            assert response.startswith(b"HTTP/1.1 408 ")

        far_too_long = exchange(POST + f"Content-Length: {5 * MIB}\r\n\r\n".encode())
        assert far_too_long.recv(13) == b"HTTP/1.1 413 "
        # A body that is a little too long is received, so that the response is not lost with the connection.
        too_long = exchange(POST + f"Content-Length: {MIB + 4096}\r\n\r\n".encode())
        assert not has_input(too_long)
        too_long.sendall(bytes(MIB + 4096))
        assert too_long.recv(13) == b"HTTP/1.1 413 "
        chunk = b"%x\r\n%b\r\n" % (MIB + 4096, bytes(MIB + 4096))
        too_long_chunked = exchange(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n")
        assert too_long_chunked.recv(13) == b"HTTP/1.1 413 "
        endless = exchange(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4)
        assert endless.recv(13) == b"HTTP/1.1 413 "
        cut = exchange(HALF_BODY)
        cut.shutdown(socket.SHUT_WR)
        assert read_to_end([cut])[0][:13] in (b"HTTP/1.1 400 ", b"")

        chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        whole = exchange(POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked)
        assert read_to_end([whole])[0].startswith(b"HTTP/1.1 200 ")
        expecting = exchange(POST + b"Connection: close\r\nExpect: 100-continue\r\n" + length)
        assert expecting.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        expecting.sendall(body)
        assert read_to_end([expecting])[0].startswith(b"HTTP/1.1 422 ")  # the address has an account
        pipelined = exchange(POST + length + body + b"GET /health HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        responses = read_to_end([pipelined])[0]
        assert responses.count(b"HTTP/1.1 ") == 2
        assert b'"name":"authsvc"' in responses
