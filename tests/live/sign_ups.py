"""Sign-ups at a running server that sends emails to a `MailboxServer`."""

from __future__ import annotations

import http.client
import json
import socket

import requests

from tests.live.clients.mailbox_server import MailboxServer
from tests.live.servers import LiveServer
from tests.timeouts import TIMEOUT_SECONDS

PASSWORD = "correct horse battery"


def settings_for(mailbox: MailboxServer) -> dict[str, str]:
    """Settings of a server that sends emails to `mailbox`, with the code in the subject, without rate limits."""
    return {
        "AUTH_SMTP_HOST": mailbox.smtp.host,
        "AUTH_SMTP_PORT": str(mailbox.smtp.port),
        "AUTH_SMTP_ADMIN_EMAIL": "noreply@example.com",
        "AUTH_MAILER_SUBJECTS_CONFIRMATION": "Your code is {{ .Token }}",
        "AUTH_RATE_LIMIT_EMAIL_SENT": "1000000",
        "AUTH_RATE_LIMIT_OTP": "1000000",
    }


def sign_up(server: LiveServer, email: str) -> requests.Response | None:
    """The response, or None if the server closed the connection first. Raises if the server exceeds the timeout."""
    body = {"email": email, "password": PASSWORD}
    try:
        return requests.post(f"{server.url}/signup", json=body, timeout=TIMEOUT_SECONDS)
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        return None


def sign_up_to_sign_in(server: LiveServer, mailbox: MailboxServer, email: str) -> str:
    """Sign up, open the link in the email and sign in; return the access token."""
    made = sign_up(server, email)
    assert made is not None
    assert made.status_code == 200, made.text
    received = mailbox.wait(email, seconds=TIMEOUT_SECONDS)
    landed = requests.get(received.link, allow_redirects=False, timeout=TIMEOUT_SECONDS)
    assert "access_token=" in landed.headers["Location"]
    signed_in = requests.post(
        f"{server.url}/token",
        params={"grant_type": "password"},
        json={"email": email, "password": PASSWORD},
        timeout=TIMEOUT_SECONDS,
    )
    assert signed_in.status_code == 200, signed_in.text
    return str(signed_in.json()["access_token"])


class HalfSent:
    """A sign-up that the server has begun to handle and whose body stops half-way until `finish` sends the rest."""

    def __init__(self, server: LiveServer, email: str) -> None:
        self.email = email
        self._body = json.dumps({"email": email, "password": PASSWORD}).encode()
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_SECONDS)
        head = "POST /signup HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
        self._socket.sendall(f"{head}Content-Length: {len(self._body)}\r\n\r\n".encode())
        # RFC 9110, section 10.1.1: the server asks for the body once it handles the request.
        received = b""
        while not received.endswith(b"\r\n\r\n"):
            received += self._socket.recv(1)
        assert received.startswith(b"HTTP/1.1 100"), received
        self._socket.sendall(self._body[:5])

    def finish(self) -> int:
        """Send the rest and return the status of the answer."""
        with self._socket:
            self._socket.sendall(self._body[5:])
            response = http.client.HTTPResponse(self._socket)
            response.begin()
            return response.status
