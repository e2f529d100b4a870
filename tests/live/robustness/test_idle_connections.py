"""Idle connections do not delay requests on other connections."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import requests

from tests.live import servers, sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.timeouts import TIMEOUT_SECONDS, wait_until

CONNECTIONS = 200
"""Many times the thread count of a server with two processes."""
WHOLE = b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n"
HALF = WHOLE[:-10]


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            """The end of a response."""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


def is_served_with_idle_connections(server: servers.LiveServer, sent: bytes) -> bool:
    """Return True if a new connection is answered while CONNECTIONS others are open and have sent `sent`."""
    with contextlib.ExitStack() as connections:
        for _ in range(CONNECTIONS):
            idle = connections.enter_context(
                socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_SECONDS)
            )
            idle.sendall(sent)
            if sent == WHOLE:
                assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        assert requests.get(f"{server.url}/health", timeout=TIMEOUT_SECONDS).ok
        # The server closes idle connections after a timeout. If its threads waited for them, it would close this first.
        return is_open(idle)


def test_idle_connections_block_no_thread(tmp_path: Path, fresh_database_url: str, mailbox: MailboxServer) -> None:
    env = sign_ups.settings_for(mailbox)
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        for number, sent in enumerate((b"", HALF, WHOLE)):
            wait_until(
                lambda sent=sent: is_served_with_idle_connections(server, sent),  # type: ignore[misc]
                f"a response while other connections are open that have sent {sent!r}",
            )
            sign_ups.sign_up_to_sign_in(server, mailbox, f"person{number}@example.com")
