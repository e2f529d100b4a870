"""Walks the tutorial "Your own identity provider" in a browser, with the application of the document.

`make screenshots` also writes its images to `docs/images`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import requests

from tests import ports
from tests.live.browser import accessibility, images
from tests.live.browser.chromium import Chromium
from tests.live.clients import node
from tests.live.documentation import pages as documents
from tokens.jwt import signing_keys

TUTORIAL = documents.DOCS / "tutorial" / "identity-provider.md"
OPERATOR, ADA, PASSWORD = "ops@example.com", "ada@example.com", "correct horse 1"
START_SECONDS = 60


@contextlib.contextmanager
def running_shop(folder: Path, *, service: str, port: int, client_id: str, secret: str) -> Iterator[str]:
    """The application of the tutorial, which asks this service; its URL."""
    node.install()
    [program] = documents.blocks(TUTORIAL, "js")
    url = f"http://localhost:{port}"
    for shown, real in (("http://localhost:8081", service), ("http://localhost:3000", url), ("3000", str(port))):
        assert shown in program
        program = program.replace(shown, real)
    (folder / "node_modules").symlink_to(node.FOLDER / "node_modules")
    (folder / "shop.mjs").write_text(program)
    process = subprocess.Popen(
        [node.NODE, "shop.mjs"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "CLIENT_ID": client_id, "CLIENT_SECRET": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ports.is_listening(port):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                assert process.stdout is not None
                pytest.fail(process.stdout.read())
            time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.communicate()


def wait_for_text(browser: Chromium, text: str) -> None:
    browser.wait_for(f"document.readyState === 'complete' && document.body.innerText.includes({json.dumps(text)})")


class Camera:
    """Checks a page of the tutorial, and writes its image if SCREENSHOTS is set."""

    def __init__(self, browser: Chromium, *, replaced: dict[str, str]) -> None:
        self._browser = browser
        self._replaced = replaced

    def shoot(self, name: str) -> None:
        assert accessibility.clipped(self._browser) == []
        if not os.environ.get("SCREENSHOTS"):
            return
        images.replace(self._browser, self._replaced)
        images.write(self._browser, folder=images.FOLDER, name=name, width=1280)


def test_tutorial_signs_a_user_in_through_openid_client(
    browser: Chromium, start_service: Callable[..., str], fresh_database_url: str, tmp_path: Path
) -> None:
    port, shop_port = ports.free_port(), ports.free_port()
    service = f"http://localhost:{port}"
    start_service(
        port=port,
        AUTH_SITE_URL="http://localhost:3000",
        AUTH_API_EXTERNAL_URL=service,
        AUTH_JWT_ISSUER=service,
        AUTH_JWT_KEYS=json.dumps([signing_keys.generate(algorithm="RS256")]),
        AUTH_PAGES_ENABLED="true",
        AUTH_OAUTH_SERVER_ENABLED="true",
        AUTH_MAILER_AUTOCONFIRM="true",
        WEB_CONCURRENCY="1",
    )
    for email in (OPERATOR, ADA):
        assert requests.post(f"{service}/signup", json={"email": email, "password": PASSWORD}, timeout=60).ok
    with psycopg.connect(fresh_database_url) as connection:
        connection.execute("UPDATE users SET role = 'svc_admin' WHERE email = %s", [OPERATOR])
    browser.prefer_color_scheme("light")
    browser.resize(width=1280, height=800, mobile=False)
    browser.watch_policy_violations()

    # Register the application.
    browser.open(f"{service}/operator/oauthserver/oauthclient/register/")
    browser.fill(name=OPERATOR, password=PASSWORD)
    browser.click("button.default")
    browser.fill(client_name="Shop", redirect_uris="http://localhost:3000/callback")
    browser.click("#confirm-action button.default")
    wait_for_text(browser, "Settings of the application")
    client_id, secret = browser.evaluate("[shown_1.value, shown_2.value]")
    replaced = {
        str(port): "8081",
        str(shop_port): "3000",
        secret: "7fKq…",
        client_id: "5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4f01",
    }
    camera = Camera(browser, replaced=replaced)
    camera.shoot("tutorial-registered")

    with running_shop(tmp_path, service=service, port=shop_port, client_id=client_id, secret=secret) as shop:
        # Sign in, and consent.
        browser.open(shop)
        browser.click("a")
        wait_for_text(browser, "Sign in")
        browser.fill(name=ADA, password=PASSWORD)
        browser.click("main button.primary")
        wait_for_text(browser, "Allow access to your account?")
        assert browser.evaluate("document.querySelector('.target').innerText") == f"localhost:{shop_port}"
        camera.shoot("tutorial-consent")
        browser.click("button[value=approve]")
        wait_for_text(browser, f"Signed in as {ADA}")
        camera.shoot("tutorial-shop")

        # The access is remembered, also after a sign-in on the way, whose form then leads to another origin.
        browser.open(f"{service}/account/sign-out")
        browser.click("main button.primary")
        wait_for_text(browser, "signed out")
        browser.open(f"{shop}/sign-in")
        browser.fill(name=ADA, password=PASSWORD)
        browser.click("main button.primary")
        wait_for_text(browser, f"Signed in as {ADA}")

        # Remove the access.
        browser.open(f"{service}/account/applications")
        wait_for_text(browser, "Connected applications")
        camera.shoot("tutorial-applications")
        browser.click(".items button")
        wait_for_text(browser, "No application has access to your account.")
        browser.open(shop)
        wait_for_text(browser, "No access:")

        # The next sign-in asks again.
        browser.click("a")
        wait_for_text(browser, "Allow access to your account?")
        browser.click("button[value=deny]")
        wait_for_text(browser, "No access: access_denied")
    assert browser.policy_violations() == []
