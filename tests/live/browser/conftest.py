"""A browser, the site to which links redirect, and a service whose emails stay in its inbox."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.live import servers as live
from tests.live.browser import chromium
from tests.live.browser.chromium import Chromium

# The request of an application after the redirect, with the headers of client libraries.
PAGE = """<!doctype html><title>The site</title><script type="module">
const given = new URLSearchParams(location.hash.slice(1))
const answer = await fetch('AUTH_URL/user', {headers: {
  'Authorization': `Bearer ${given.get('access_token')}`,
  'X-Client-Info': 'test',
  'X-Supabase-Api-Version': '2024-01-01',
}})
window.seen = {
  given: Object.fromEntries(given),
  status: answer.status,
  version: answer.headers.get('X-Supabase-Api-Version'),
  body: await answer.json(),
}
</script>"""


class Site(ThreadingHTTPServer):
    """Serves the one page that links lead to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SitePage)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.page = b""


class _SitePage(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.server.page)

    def log_message(self, *_: object) -> None:
        """Log nothing; the browser shows errors."""


@pytest.fixture(scope="package")
def running_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = chromium.find()
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium is installed")
    with Chromium(program=program, folder=tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def browser(running_browser: Chromium) -> Iterator[Chromium]:
    """A page of a new profile."""
    with running_browser.profile():
        yield running_browser


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def start_service(tmp_path: Path, fresh_database_url: str, site: Site) -> Iterator[Callable[..., str]]:
    """`start_service(AUTH_X="1")` starts a server with these settings and returns its URL; links lead to the site.

    With `port=` it is there, else at a free one.
    """
    with contextlib.ExitStack() as servers:

        def start(*, port: int | None = None, **env: str) -> str:
            env = {
                "AUTH_SITE_URL": site.url,
                "AUTH_MAILER_DEV_INBOX_ENABLED": "true",
                "AUTH_MAILER_DEV_INBOX_FOLDER": str(tmp_path / "inbox"),
                **env,
            }
            server = live.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env, port=port)
            servers.enter_context(server)
            site.page = PAGE.replace("AUTH_URL", server.url).encode()
            return server.url

        yield start
