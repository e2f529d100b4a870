"""Requests that wait for a slot: their time limit, their durations, and clients that give up meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator

import psutil
import psycopg
import pytest
import requests

from authsvc.server import serving
from tests import ports
from tests.live import servers, sign_ups
from tests.live.processes import serving_processes
from tests.timeouts import TIMEOUT_SECONDS, wait_until

Serve = Callable[..., servers.LiveServer]

GET_SETTINGS = b"GET /settings HTTP/1.1\r\nHost: test\r\n\r\n"
LATENCY = "django_http_requests_latency_seconds_by_view_method_sum"


@pytest.fixture(params=["granian", "gunicorn"])
def http_server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def metrics_port() -> int:
    return ports.free_port()


@pytest.fixture
def start(http_server: str, serve: Serve, metrics_port: int) -> Serve:
    """`start(NAME="value")` starts a server of one process with metrics."""
    settings = {
        "WEB_CONCURRENCY": "1",
        "AUTH_MAILER_AUTOCONFIRM": "true",
        # A job would wait for the lock too.
        "AUTH_MAILER_WORKER_ENABLED": "false",
        # Of libpq, for all connections: the lock may last longer than a request waits for one by default.
        "PGOPTIONS": f"-c lock_timeout={TIMEOUT_SECONDS}s",
        "AUTH_METRICS_ENABLED": "true",
        "AUTH_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(metrics_port),
    }
    return lambda **more: serve(http_server, **settings, **more)


@contextlib.contextmanager
def taken_slots(server: servers.LiveServer) -> Iterator[None]:
    """All slots are taken in the block, by sign-ups that wait for a lock."""
    with psycopg.connect(server.database_url) as connection, contextlib.ExitStack() as stack:
        connection.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        for number in range(serving.THREADS):
            stack.enter_context(send(server, sign_up(f"running{number}@example.com")))
        blocked = "SELECT count(*) FROM pg_locks WHERE relation = 'users'::regclass AND NOT granted"
        wait_until(
            lambda: connection.execute(blocked).fetchone() == (serving.THREADS,), "statements that wait for the lock"
        )
        yield
        connection.rollback()
        # The clients stay connected until the requests that wait have been served.
        wait_until(lambda: connection.execute(blocked).fetchone() == (0,), "the end of these statements")
        connection.rollback()


def sign_up(email: str) -> bytes:
    body = json.dumps({"email": email, "password": sign_ups.PASSWORD}).encode()
    head = "POST /signup HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def send(server: servers.LiveServer, request: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_SECONDS)
    connection.sendall(request)
    return connection


def read(connection: socket.socket) -> tuple[int, bytes]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def metric(port: int, name: str) -> float:
    """The value of a metric without labels, or of the first series that begins with `name`; -1 if there is none."""
    lines = requests.get(f"http://127.0.0.1:{port}/", timeout=TIMEOUT_SECONDS).text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), -1)


def connected(server: servers.LiveServer) -> int:
    """The number of connections whose client has not closed them."""
    connections = [connection for process in serving_processes(server) for connection in process.net_connections("tcp")]
    return sum(
        connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == server.port
        for connection in connections
    )


def emails(server: servers.LiveServer) -> set[str]:
    with psycopg.connect(server.database_url) as connection:
        return {email for (email,) in connection.execute("SELECT email FROM users")}


def logged(server: servers.LiveServer, path: str) -> list[tuple[int, float]]:
    """Status and seconds of the requests to `path` in the access log."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if '"request completed"' in line]
    return [(line["status"], line["duration"] / 1e9) for line in lines if line["path"] == path]


def test_requests_of_departed_clients_are_not_executed_and_durations_contain_the_wait(
    start: Serve, metrics_port: int
) -> None:
    server = start()
    with taken_slots(server):
        departed = [send(server, sign_up(f"departed{number}@example.com")) for number in range(5)]
        patient = send(server, GET_SETTINGS)
        wait_until(lambda: metric(metrics_port, "auth_requests_waiting") == 6, "six waiting requests")
        since = time.monotonic()
        for connection in departed:
            connection.close()
        wait_until(lambda: connected(server) == serving.THREADS + 1, "the end of five connections")
        time.sleep(0.2)
        waited = time.monotonic() - since
    with patient:
        assert read(patient)[0] == 200
    wait_until(lambda: metric(metrics_port, "auth_requests_abandoned_total") == 5, "five abandoned requests")
    wait_until(lambda: metric(metrics_port, "auth_requests_waiting") == 0, "no waiting requests")
    assert emails(server) == {f"running{number}@example.com" for number in range(serving.THREADS)}
    [(_, seconds)] = logged(server, "/settings")
    assert seconds >= waited
    assert metric(metrics_port, f'{LATENCY}{{method="GET",view="/settings"}}') >= waited
    assert requests.get(f"{server.url}/settings", timeout=TIMEOUT_SECONDS).ok


def test_a_request_that_has_waited_too_long_is_refused_without_being_executed(start: Serve, metrics_port: int) -> None:
    server = start(AUTH_API_MAX_REQUEST_DURATION="1s")
    with taken_slots(server):
        late = send(server, sign_up("late@example.com"))
        wait_until(lambda: metric(metrics_port, "auth_requests_waiting") == 1, "a waiting request")
        time.sleep(1)
    with late:
        status, body = read(late)
    assert (status, json.loads(body)["error_code"]) == (504, "request_timeout")
    assert "late@example.com" not in emails(server)
    assert requests.get(f"{server.url}/settings", timeout=TIMEOUT_SECONDS).ok
