"""The hosted pages in a real browser: without scripts, with the links of emails, and with a passkey."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import requests

from tests import ports
from tests.live.browser.chromium import INSECURE_HOST, Chromium
from tests.live.browser.conftest import Site

EMAIL, FIRST, SECOND = "ada@example.com", "correct horse 1", "battery staple 2"


class Pages:
    """One browser on the hosted pages of a service."""

    def __init__(self, browser: Chromium, service: str) -> None:
        self.browser = browser
        self.service = service

    def open(self, path: str) -> None:
        self.browser.open(f"{self.service}{path}")

    def wait_for(self, path: str, heading: str) -> None:
        shown = f"location.pathname === {json.dumps(path)} && document.querySelector('h1')?.innerText"
        self.browser.wait_for(f"document.readyState === 'complete' && {shown} === {json.dumps(heading)}")

    def submit(self, **fields: str) -> None:
        """Fill in the form of the page, and press its primary button."""
        for name, text in fields.items():
            selector = json.dumps(f"[name={name}]")
            self.browser.evaluate(f"document.querySelector({selector}).value = {json.dumps(text)}")
        self.browser.click("button.primary")

    def follow_newest_link(self) -> None:
        messages: list[Any] = requests.get(f"{self.service}/inbox/messages.json", timeout=60).json()
        self.browser.open(messages[0]["link"])

    @property
    def text(self) -> str:
        return str(self.browser.evaluate("document.body.innerText"))


def test_a_user_needs_no_scripts_but_for_passkeys(browser: Chromium, start_service: Callable[..., str]) -> None:
    port = ports.free_port()
    service = f"http://localhost:{port}"  # browsers bind passkeys to names of hosts, not to addresses
    start_service(
        port=port,
        AUTH_API_EXTERNAL_URL=service,
        AUTH_PAGES_ENABLED="true",
        AUTH_PAGES_COLOR="#facc15",
        AUTH_PASSKEY_ENABLED="true",
        AUTH_WEBAUTHN_RP_ID="localhost",
        AUTH_WEBAUTHN_RP_DISPLAY_NAME="The service",
        AUTH_WEBAUTHN_RP_ORIGINS=service,
    )
    pages = Pages(browser, service)
    browser.watch_policy_violations()
    browser.set_scripts(enabled=False)

    pages.open("/account/sign-up")
    pages.wait_for("/account/sign-up", "Create an account")
    pages.submit(name=EMAIL, password=FIRST)
    pages.wait_for("/account/confirm", "Check your email")
    pages.follow_newest_link()
    pages.wait_for("/account/confirm", "Confirm your email address")
    assert EMAIL in pages.text
    pages.submit()
    pages.wait_for("/account", "Your account")

    browser.click("nav.account form button")
    pages.wait_for("/account/signed-out", "Signed out")
    pages.open("/account/profile")
    pages.wait_for("/account/sign-in", "Sign in")
    pages.submit(name=EMAIL, password="wrong-password")
    browser.wait_for("!!document.querySelector('.notice.error')")
    pages.submit(name=EMAIL, password=FIRST)
    pages.wait_for("/account/profile", "Profile")

    browser.click("nav.account form button")
    pages.wait_for("/account/signed-out", "Signed out")
    pages.open("/account/recover")
    pages.wait_for("/account/recover", "Reset your password")
    pages.submit(email=EMAIL)
    pages.wait_for("/account/confirm", "Check your email")
    pages.follow_newest_link()
    pages.wait_for("/account/confirm", "Reset your password")
    pages.submit()
    pages.wait_for("/account/new-password", "New password")
    pages.submit(password=SECOND)
    pages.wait_for("/account", "Your account")

    browser.set_scripts(enabled=True)
    browser.add_authenticator(transport="internal")
    pages.open("/account/passkeys/new")
    pages.wait_for("/account/passkeys/new", "Add a passkey")
    pages.submit(name="laptop")
    pages.wait_for("/account/passkeys", "Passkeys")
    assert "laptop" in pages.text
    browser.click("nav.account form button")
    pages.wait_for("/account/signed-out", "Signed out")
    pages.open("/account/sign-in?next=/account/sessions")
    browser.click("button[value=passkey]")
    pages.wait_for("/account/sessions", "Sessions")
    browser.click("footer button[value=de]")
    pages.wait_for("/account/sessions", "Sitzungen")
    assert browser.evaluate("document.documentElement.lang") == "de"
    assert browser.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--accent')") == "#facc15"

    browser.open(f"http://{INSECURE_HOST}:{port}/account/sign-in")
    browser.click("button[value=passkey]")
    text = "Passkeys and security keys do not work at this address."
    browser.wait_for(f"document.querySelector('#key-status')?.innerText === {json.dumps(text)}")
    assert browser.policy_violations() == []


def test_a_double_click_submits_a_form_once(browser: Chromium, start_service: Callable[..., str]) -> None:
    """The second sign-up would be refused, because a message has just been sent."""
    pages = Pages(browser, start_service(AUTH_PAGES_ENABLED="true"))
    pages.open("/account/sign-up")
    pages.wait_for("/account/sign-up", "Create an account")
    browser.fill(name=EMAIL, password=FIRST)
    browser.double_click("button.primary")
    pages.wait_for("/account/confirm", "Check your email")

    browser.evaluate("history.back()")
    pages.wait_for("/account/sign-up", "Create an account")
    browser.fill(name=EMAIL, password=FIRST)
    browser.click("button.primary")
    browser.wait_for("document.querySelector('.notice.error')?.innerText.includes('A message was sent')")


def test_a_user_stays_signed_in_after_forms_of_other_sites(
    browser: Chromium, start_service: Callable[..., str], site: Site
) -> None:
    port = ports.free_port()
    service = f"http://localhost:{port}"  # another site than that of the address
    start_service(
        port=port,
        AUTH_API_EXTERNAL_URL=service,
        AUTH_PAGES_ENABLED="true",
        AUTH_OAUTH_SERVER_ENABLED="true",
        AUTH_MAILER_AUTOCONFIRM="true",
    )
    pages = Pages(browser, service)
    pages.open("/account/sign-up")
    pages.wait_for("/account/sign-up", "Create an account")
    pages.submit(name=EMAIL, password=FIRST)
    pages.wait_for("/account", "Your account")
    for path, heading in (("/oauth/authorize", "This did not work"), ("/oauth/logout", "Sign out")):
        form = f'<form method="post" action="{service}{path}"></form>'
        site.page = f"<!doctype html><title>x</title>{form}<script>document.forms[0].submit()</script>".encode()
        browser.open(site.url)
        pages.wait_for(path, heading)
        pages.open("/account")
        pages.wait_for("/account", "Your account")

    pages.open("/oauth/logout")
    pages.wait_for("/oauth/logout", "Sign out")
    pages.submit()
    pages.wait_for("/account/signed-out", "Signed out")
