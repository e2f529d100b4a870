"""The WSGI environment of a request that granian has received, and requests as real servers pass them on."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from authsvc.api.parsing import REQUEST_ERROR
from authsvc.server import rsgi
from tests.conftest import ChangeConfig
from tests.live import servers
from tests.timeouts import TIMEOUT_SECONDS


class Headers:
    def __init__(self, *items: tuple[str, str]) -> None:
        self._items = items

    def items(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self._items if value.isascii()]

    def keys(self) -> list[str]:
        return list(dict(self._items))

    def __len__(self) -> int:
        return len(self.keys())


def read(*headers: tuple[str, str], **values: str) -> dict[str, Any]:
    scope = {"method": "GET", "path": "/", "query_string": "", "http_version": "1.1", "client": "192.0.2.1:50000"}
    return rsgi.read_scope(SimpleNamespace(**{**scope, **values, "headers": Headers(*headers)}))


def test_headers_become_variables() -> None:
    environ = read(("content-type", "text/plain"), ("content-length", "3"), ("x-client-info", "a"), ("host", "b"))
    expected = {"CONTENT_TYPE": "text/plain", "CONTENT_LENGTH": "3", "HTTP_X_CLIENT_INFO": "a", "HTTP_HOST": "b"}
    assert environ.items() >= expected.items()


def test_repeated_headers_are_joined() -> None:
    environ = read(("x-forwarded-for", "a"), ("cookie", "a=1"), ("x-forwarded-for", "b"), ("cookie", "b=2"))
    assert environ["HTTP_X_FORWARDED_FOR"] == "a,b"
    assert environ["HTTP_COOKIE"] == "a=1; b=2"
    assert read(("content-length", "3"), ("content-length", "3"))["CONTENT_LENGTH"] == "3"


@pytest.mark.parametrize("name", ["x-forwarded-for", "svc-forwarded-for", "x-client", "cookie"])
def test_an_address_that_is_not_ascii_is_an_error(auth_config: ChangeConfig, name: str) -> None:
    auth_config(limits={"header": "X-Client"})
    environ = read(("host", "a"), (name, "\xff, 192.0.2.9"))
    assert (REQUEST_ERROR in environ) == (name != "cookie")
    assert REQUEST_ERROR not in read(("host", "a"), (name, "b"), (name, "c"))


def test_only_one_name_with_an_underscore_is_read() -> None:
    environ = read(("x_forwarded_for", "a"), ("content_length", "3"), ("redirect_to", "b"))
    assert environ["HTTP_REDIRECT_TO"] == "b"
    assert not {"HTTP_X_FORWARDED_FOR", "CONTENT_LENGTH"} & environ.keys()


@pytest.mark.parametrize(
    ("client", "address"), [("192.0.2.1:5", "192.0.2.1"), ("[2001:db8::1]:5", "2001:db8::1"), ("[::]:5", "::")]
)
def test_the_address_of_the_peer_has_no_port(client: str, address: str) -> None:
    assert read(client=client)["REMOTE_ADDR"] == address


def test_text_has_one_character_per_byte() -> None:
    environ = read(path="/é", query_string="a=é")
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/é"
    assert environ["QUERY_STRING"].encode("latin-1").decode() == "a=é"


@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_requests_reach_the_application_as_sent(http_server: str, serve: Callable[..., servers.LiveServer]) -> None:
    server = serve(http_server)
    assert requests.get(f"{server.url}/nö/%C3%A9?a=%C3%A9", timeout=TIMEOUT_SECONDS).status_code == 404
    head = requests.head(f"{server.url}/settings", timeout=TIMEOUT_SECONDS)
    assert (head.status_code, head.content) in ((200, b""), (405, b""))
    assert requests.put(f"{server.url}/user", data=b"", timeout=TIMEOUT_SECONDS).status_code == 401
    assert requests.get(f"{server.url}/settings", data=b'{"a":1}', timeout=TIMEOUT_SECONDS).ok
    with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(b"GET /settings HTTP/1.0\r\nUser-Agent: \xc3\xa9\r\n\r\n")
        assert connection.recv(12) in (b"HTTP/1.0 200", b"HTTP/1.1 200")
