"""Connections that do nothing keep nobody else waiting."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
import requests

from tests.live import servers
from tests.live.clients.postbox import Postbox
from tests.live.robustness import conftest as robust

CONNECTIONS = 200
"""Many times the threads of a server with two processes."""
WHOLE = b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n"
HALF = WHOLE[:-10]


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            """The end of an answer."""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


def is_served_beside(server: servers.LiveServer, sent: bytes) -> bool:
    """Whether a new connection is answered while as many others are open and have sent this much."""
    with contextlib.ExitStack() as connections:
        for _ in range(CONNECTIONS):
            idle = connections.enter_context(
                socket.create_connection(("127.0.0.1", server.port), timeout=robust.PATIENCE_SECONDS)
            )
            idle.sendall(sent)
            if sent == WHOLE:
                assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        assert requests.get(f"{server.url}/health", timeout=robust.PATIENCE_SECONDS).ok
        # The server closes idle ones after a while. Were its threads waiting for them, it would close this one first.
        return is_open(idle)


@pytest.mark.parametrize(
    "sent", [b"", HALF, WHOLE], ids=["nothing sent", "half a head sent", "kept open after an answer"]
)
def test_idle_connections_hold_no_thread(sent: bytes, tmp_path: Path, fresh_database_url: str, post: Postbox) -> None:
    env = robust.settings_for(post)
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        robust.wait_until(lambda: is_served_beside(server, sent), "an answer beside open connections")
        robust.sign_up_to_sign_in(server, post, "ada@example.com")
