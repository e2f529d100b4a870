"""What a client library's tests read of their mail: the action link and the code, in Python and over HTTP."""

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
class Letter:
    """The two ways to prove that a mail arrived; the code stands at the end of the subject."""

    link: str
    """Empty in a mail that carries a code alone."""
    code: str


class Postbox:
    """A mail server while its `with` block runs; `url?to=ADDRESS&number=1` answers `{"link", "code"}` of a letter."""

    def __init__(self) -> None:
        self.smtp = FakeSmtp()
        self._http = _LetterServer(self)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/"

    def wait(self, to: str, *, number: int = 1, seconds: float = 10) -> Letter:
        """The letter with that number, counted from 1, to an address. Raises TimeoutError when it does not come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            letters = [letter for letter in list(self.smtp.received) if to in letter.recipients]
            if len(letters) >= number:
                return _read(letters[number - 1].message)
            time.sleep(0.02)
        raise TimeoutError(f"letter {number} to {to} did not come")

    def __enter__(self) -> Postbox:
        self.smtp.__enter__()
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self.smtp.__exit__(kind, error, trace)


def _read(message: EmailMessage) -> Letter:
    text = message.get_body(("plain",))
    assert text is not None
    link, code = _LINK.search(text.get_content()), _CODE.search(message["Subject"])
    assert code is not None, message["Subject"]
    return Letter(link=link.group() if link else "", code=code.group())


class _LetterServer(ThreadingHTTPServer):
    def __init__(self, box: Postbox) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.box = box


class _Handler(BaseHTTPRequestHandler):
    server: _LetterServer

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        try:
            letter = self.server.box.wait(asked["to"][0], number=int(asked.get("number", ["1"])[0]))
        except TimeoutError as error:
            self.send_error(404, str(error))
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(asdict(letter)).encode())

    def log_message(self, *_: object) -> None:
        """Quiet: what matters is in the tests' own output."""
