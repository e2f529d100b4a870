"""The development inbox in a real browser: the link of an email leads to the site, which calls the service."""

from __future__ import annotations

from collections.abc import Callable

import requests

from tests.live.browser.chromium import Chromium
from tests.live.browser.conftest import Site

EMAIL = "ada@example.com"


def test_the_link_in_the_inbox_redirects_to_the_site_with_a_session(
    browser: Chromium, start_service: Callable[..., str], site: Site
) -> None:
    service = start_service()
    browser.open(f"{service}/inbox/")
    browser.wait_for("document.body.innerText.includes('No messages yet')")
    browser.evaluate("document.querySelector('main a').focus()")
    requests.post(f"{service}/signup", json={"email": EMAIL, "password": "correct horse 1"}, timeout=60)
    # The page shows new messages by itself, and users of a keyboard keep their place.
    browser.wait_for(f"document.querySelector('article')?.innerText.includes('{EMAIL}')")
    assert browser.evaluate("document.activeElement.getAttribute('href')") == "/inbox/previews/"

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

    # The link works once; later uses redirect with an error.
    browser.open(f"{service}/inbox/")
    browser.wait_for("location.pathname === '/inbox/' && !!document.querySelector('article')")
    browser.click("article a.button")
    again = browser.wait_for("window.seen")
    assert again["given"]["error_code"] == "otp_expired"
    assert again["version"] == "2024-01-01"
    assert again["body"]["code"] == "bad_jwt"


def test_the_button_in_an_email_leaves_its_frame(
    browser: Chromium, start_service: Callable[..., str], site: Site
) -> None:
    service = start_service()
    requests.post(f"{service}/signup", json={"email": EMAIL, "password": "correct horse 1"}, timeout=60)
    browser.open(f"{service}/inbox/")
    browser.click("article h2 a")
    browser.wait_for("location.pathname.length > '/inbox/'.length && !!document.querySelector('iframe')")

    browser.click_in_frame("a[href*='/verify?']")

    seen = browser.wait_for("window.seen")
    assert browser.evaluate("location.origin") == site.url
    assert browser.evaluate("window.top === window.self")
    assert seen["body"]["email"] == EMAIL


def test_the_previews_show_every_email_in_a_frame(browser: Chromium, start_service: Callable[..., str]) -> None:
    service = start_service()
    browser.open(f"{service}/inbox/")
    browser.click("a[href='/inbox/previews/']")
    browser.click("a[href='/inbox/previews/magic_link']")
    browser.wait_for("location.pathname === '/inbox/previews/magic_link' && !!document.querySelector('iframe')")
    assert "Sign in" in browser.wait_for_in_frame("document.body?.innerText")
    assert "/verify?token=0000" in browser.evaluate("document.querySelector('pre').innerText")
