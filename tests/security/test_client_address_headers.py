"""Headers that hide or replace the address of the client: names with underscores, values that are not ASCII.

WSGI maps names with underscores and hyphens to one variable. granian leaves out values that are not ASCII.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest
import requests

from tests.live import servers
from tests.timeouts import TIMEOUT_SECONDS, wait_until

CLIENT = "198.51.100.7"


def read_logged_address(server: servers.LiveServer, *headers: str) -> str:
    """The client address in the access log of a request with these headers."""
    request = "\r\n".join(["GET /settings HTTP/1.1", "Host: test", "Connection: close", *headers, "", ""])
    count = len(_access_log(server))
    with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(request.encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
    wait_until(lambda: len(_access_log(server)) > count, "a line in the access log")
    return str(_access_log(server)[-1]["remote_addr"])


def _access_log(server: servers.LiveServer) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if "request completed" in line]
    return [line for line in lines if line["path"] == "/settings"]


@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_only_the_real_header_sets_the_client_address(
    http_server: str, serve: Callable[..., servers.LiveServer]
) -> None:
    server = serve(http_server, AUTH_TRUSTED_PROXIES="127.0.0.0/8", AUTH_SECURITY_FORWARDED_FOR_ENABLED="true")

    for name in ("X_Forwarded_For", "X_Forwarded-For", "x-forwarded_for", "Svc_Forwarded_For"):
        assert read_logged_address(server, f"{name}: {CLIENT}") == "127.0.0.1"
        # After the real header, it neither replaces nor extends it.
        assert read_logged_address(server, "X-Forwarded-For: 203.0.113.9", f"{name}: {CLIENT}") == "203.0.113.9"
    assert read_logged_address(server, f"X-Forwarded-For: {CLIENT}") == CLIENT
    assert read_logged_address(server, f"Svc-Forwarded-For: {CLIENT}") == CLIENT


@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_a_value_that_is_not_ascii_does_not_hide_the_client(
    http_server: str, serve: Callable[..., servers.LiveServer]
) -> None:
    server = serve(
        http_server,
        AUTH_TRUSTED_PROXIES="127.0.0.0/8",
        AUTH_OPERATOR_ALLOWED_NETWORKS="127.0.0.0/8",
        AUTH_RATE_LIMIT_HEADER="X-Client",
        AUTH_SECURITY_FORWARDED_FOR_ENABLED="true",
    )
    url = f"{server.url}/operator/login/"

    def get(**headers: bytes) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.get(url, headers=named, timeout=TIMEOUT_SECONDS).status_code

    assert get(X_Forwarded_For=b"203.0.113.9") == 404
    # gunicorn passes the bytes on.
    refused = 400 if http_server == "granian" else 404
    assert get(X_Forwarded_For=b"\xff, 203.0.113.9") == refused
    assert get(x_forwarded_for=b"\xc3\xa9, 203.0.113.9") == refused
    accepted = 400 if http_server == "granian" else 200
    assert get(X_Client=b"\xff, 203.0.113.9") == accepted
    assert get(Svc_Forwarded_For=b"\xff") == accepted
    assert get(Cookie=b"theme=\xc3\xa9", User_Agent=b"\xe9") == 200
