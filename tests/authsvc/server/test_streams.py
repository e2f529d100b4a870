"""Streamed responses arrive while they are written, hold no slot while they are sent, and never end early unseen."""

from __future__ import annotations

import csv
import re
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import requests
from requests.adapters import HTTPAdapter

from authsvc.api.parsing import REQUEST_ERROR
from authsvc.server import rsgi
from tests.live import servers, sign_ups
from tests.timeouts import TIMEOUT_SECONDS

OPERATOR = "operator@example.com"
ROWS = 9_000
"""Users of an export of 3 MB, which is more than the server and the kernel hold for a client that reads nothing."""
EXPORT = "/operator/accounts/user/export/"


class _SlowReader(HTTPAdapter):
    """Connections that receive little before their client reads it."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        small = (socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        super().init_poolmanager(*arguments, **options, socket_options=[small])


@pytest.fixture(params=["granian", "gunicorn"])
def server(
    request: pytest.FixtureRequest, serve: Callable[..., servers.LiveServer], fresh_database_url: str
) -> servers.LiveServer:
    """A server with one process and one slot, an operator and ROWS further users."""
    env = {"WEB_CONCURRENCY": "1", "AUTH_DB_MAX_POOL_SIZE": "2", "AUTH_MAILER_WORKER_ENABLED": "false"}
    running = serve(request.param, AUTH_MAILER_AUTOCONFIRM="true", **env)
    assert sign_ups.sign_up(running, OPERATOR)
    with psycopg.connect(fresh_database_url) as connection:
        connection.execute("UPDATE users SET role = 'svc_admin'")
        connection.execute(
            "INSERT INTO users (id, aud, role, email, raw_user_meta_data, created_at, is_sso_user, is_anonymous)"
            " SELECT gen_random_uuid(), 'authenticated', 'authenticated', 'user' || n || '@example.com',"
            " jsonb_build_object('full_name', repeat('x', 300)), now(), false, false FROM generate_series(1, %s) n",
            [ROWS],
        )
    return running


@pytest.fixture
def operator(server: servers.LiveServer) -> Iterator[requests.Session]:
    """A browser that has signed in to the console."""
    with requests.Session() as browser:
        browser.mount("http://", _SlowReader())
        page = browser.get(f"{server.url}/operator/login/", timeout=TIMEOUT_SECONDS)
        form = {"name": OPERATOR, "password": sign_ups.PASSWORD, "csrfmiddlewaretoken": token_of(page)}
        page = browser.post(page.url, data=form, headers={"Referer": page.url}, timeout=TIMEOUT_SECONDS)
        assert page.url.endswith("/operator/"), page.text
        browser.headers["Referer"] = page.url
        browser.headers["X-CSRFToken"] = token_of(page)
        yield browser


def token_of(page: requests.Response) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def export(server: servers.LiveServer, operator: requests.Session) -> requests.Response:
    """The export, of which only the headers have been read."""
    response = operator.post(f"{server.url}{EXPORT}", stream=True, timeout=TIMEOUT_SECONDS)
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    return response


def test_an_export_leaves_its_slot_while_it_is_sent_and_its_failure_is_visible(
    server: servers.LiveServer, operator: requests.Session, fresh_database_url: str
) -> None:
    with export(server, operator) as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        # The only slot is free while the client does not read.
        assert requests.get(f"{server.url}/settings", timeout=TIMEOUT_SECONDS).ok
        assert len(list(csv.reader(response.text.splitlines()))) == ROWS + 2

    with export(server, operator) as response:
        with psycopg.connect(fresh_database_url) as connection:
            connection.execute("ALTER TABLE users RENAME TO former_users")
        with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.ConnectionError)):
            assert response.content
    assert requests.get(f"{server.url}/health", timeout=TIMEOUT_SECONDS).ok


class _Stream:
    """A streamed response that runs `write` before its first chunk."""

    streaming = True

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write

    def __iter__(self) -> Iterator[bytes]:
        self._write()
        yield b"row"

    def close(self) -> None:
        pass


def test_streams_beyond_the_limit_are_refused() -> None:
    started: list[int] = []

    class Protocol:
        def response_bytes(self, status: int, _headers: object, _content: bytes) -> None:
            started.append(status)

        def response_stream(self, status: int, _headers: object) -> Any:
            started.append(status)
            return SimpleNamespace(send_bytes=lambda _: None)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if REQUEST_ERROR in environ:
            start_response(f"{environ[REQUEST_ERROR].status} Busy", [])
            return []
        start_response("200 OK", [])
        return _Stream(receive)

    def receive() -> None:
        values = {"method": "GET", "path": "/", "query_string": "", "http_version": "1.1", "client": "192.0.2.1:50000"}
        server.schedule(SimpleNamespace(proto=Protocol(), scope=SimpleNamespace(**values, headers={})))

    at_once: Any = SimpleNamespace(are_taken=False, submit=lambda task: task(), count_waiting=lambda: None)
    server = rsgi.Requests(application, slots=at_once, port=1)
    receive()
    assert started == [503, *[200] * rsgi.MAX_STREAMS]
    started.clear()
    receive()
    assert started == [503, *[200] * rsgi.MAX_STREAMS], "ended streams free their place"
