"""The confirm page in a real browser: its policy allows the redirect to the site, and it fits on a phone."""

from __future__ import annotations

import time
from collections.abc import Callable

import requests

from tests.live.browser.chromium import Chromium
from tests.live.browser.conftest import Site

EMAIL = "ada@example.com"


def read_mailed_link(service: str) -> str:
    """The link of the only email, after its delivery."""
    deadline = time.monotonic() + 60
    while not (messages := requests.get(f"{service}/inbox/messages.json", timeout=60).json()):
        assert time.monotonic() < deadline, "no email arrived"
        time.sleep(0.1)
    return str(messages[0]["link"])


def test_the_button_redirects_to_the_site_with_a_session(
    browser: Chromium, start_service: Callable[..., str], site: Site
) -> None:
    service = start_service(AUTH_MAILER_LINK_CONFIRM_PAGE_ENABLED="true")
    requests.post(f"{service}/signup", json={"email": EMAIL, "password": "correct horse 1"}, timeout=60)
    link = read_mailed_link(service)
    # A link scanner.
    for _ in range(3):
        assert requests.get(link, timeout=60).status_code == 200
        requests.head(link, timeout=60)

    browser.resize(width=360, height=640)
    browser.open(link)
    browser.wait_for("document.querySelector('h1')?.innerText === 'Confirm your email address'")
    assert browser.evaluate("document.documentElement.scrollWidth <= 360")
    assert browser.evaluate("getComputedStyle(document.querySelector('button')).backgroundColor") == "rgb(29, 78, 216)"
    height = browser.evaluate("document.querySelector('button').getBoundingClientRect().height")
    assert height >= 44  # minimum size of a touch target
    browser.click("button")

    seen = browser.wait_for("window.seen")
    assert browser.evaluate("location.origin") == site.url
    assert (seen["status"], seen["body"]["email"], seen["given"]["type"]) == (200, EMAIL, "signup")

    browser.open(link)
    browser.wait_for("document.querySelector('button')?.innerText === 'Confirm'")
    browser.click("button")
    assert browser.wait_for("window.seen")["given"]["error_code"] == "otp_expired"
