"""Extracts the action link and the code from received emails, in Python and over HTTP."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from tests.fakes.smtp import FakeSmtp

_LINK = re.compile(r"https?://\S+[?&]token=\S+")
_CODE = re.compile(r"[0-9]{6}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEmail:
    """The two proofs in an email; the code is at the end of the subject."""

    link: str
    """Empty in an email that contains only a code."""
    code: str


class MailboxServer:
    """A mail server during its `with` block; `url?to=ADDRESS&number=1` returns `{"link", "code"}` of an email."""

    def __init__(self) -> None:
        self.smtp = FakeSmtp()
        self._http = _EmailServer(self)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/"

    def wait(self, to: str, *, number: int = 1, seconds: float = 60) -> ReceivedEmail:
        """The email with that number, counted from 1, to an address. Raises TimeoutError if it does not arrive."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            emails = [email for email in list(self.smtp.received) if to in email.recipients]
            if len(emails) >= number:
                return _read(emails[number - 1].message)
            time.sleep(0.02)
        raise TimeoutError(f"email {number} to {to} did not arrive")

    def __enter__(self) -> MailboxServer:
        self.smtp.__enter__()
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self.smtp.__exit__(kind, error, trace)


def _read(message: EmailMessage) -> ReceivedEmail:
    text = message.get_body(("plain",))
    assert text is not None
    link, code = _LINK.search(text.get_content()), _CODE.search(message["Subject"])
    assert code is not None, message["Subject"]
    return ReceivedEmail(link=link.group() if link else "", code=code.group())


class _EmailServer(ThreadingHTTPServer):
    def __init__(self, mailbox: MailboxServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mailbox = mailbox


class _Handler(BaseHTTPRequestHandler):
    server: _EmailServer

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        try:
            email = self.server.mailbox.wait(query["to"][0], number=int(query.get("number", ["1"])[0]))
        except TimeoutError as error:
            self.send_error(404, str(error))
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(asdict(email)).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing, to keep the test output readable."""
