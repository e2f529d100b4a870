"""The development inbox in a real browser: from the mail to the site, which then calls the service itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from tests import live
from tests.browser import chromium
from tests.browser.chromium import Chromium

EMAIL = "ada@example.com"

# What an application does after the redirect, with the headers that client libraries send.
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
        """Quiet: the browser shows what went wrong."""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    program = chromium.find()
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium is installed")
    folder = tmp_path / "profile"
    folder.mkdir()
    with Chromium(program=program, folder=folder) as running:
        yield running


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def service(tmp_path: Path, fresh_database_url: str, site: Site) -> Iterator[str]:
    """URL of a server whose mail stays in the inbox and whose links lead to the site."""
    env = {
        "AUTH_SITE_URL": site.url,
        "AUTH_MAILER_DEV_INBOX_ENABLED": "true",
        "DJANGO_SETTINGS_MODULE": "tests.browser.settings",
        "INBOX_FOLDER": str(tmp_path / "inbox"),
    }
    with live.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        site.page = PAGE.replace("AUTH_URL", server.url).encode()
        yield server.url


def test_the_link_in_the_inbox_leads_to_the_site_with_a_session(browser: Chromium, service: str, site: Site) -> None:
    browser.open(f"{service}/inbox/")
    browser.wait_for("document.body.innerText.includes('Nothing yet')")
    requests.post(f"{service}/signup", json={"email": EMAIL, "password": "correct horse 1"}, timeout=10)
    # The page renews itself.
    browser.wait_for(f"document.querySelector('article')?.innerText.includes('{EMAIL}')")

    browser.click("article h2 a")
    browser.wait_for("location.pathname.length > '/inbox/'.length && !!document.querySelector('article h2')")
    browser.click("article a.button")

    seen = browser.wait_for("window.seen")
    assert browser.evaluate("location.origin") == site.url
    assert {"access_token", "refresh_token", "expires_in", "token_type"} <= set(seen["given"])
    assert seen["given"]["type"] == "signup"
    assert seen["status"] == 200
    assert seen["body"]["email"] == EMAIL
    assert seen["body"]["email_confirmed_at"]

    # The link works once; then the site learns why, and may read the version of the error it gets.
    browser.open(f"{service}/inbox/")
    browser.wait_for("location.pathname === '/inbox/' && !!document.querySelector('article')")
    browser.click("article a.button")
    again = browser.wait_for("window.seen")
    assert again["given"]["error_code"] == "otp_expired"
    assert again["version"] == "2024-01-01"
    assert again["body"]["code"] == "bad_jwt"
