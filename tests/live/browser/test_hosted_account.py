"""The account pages in a real browser: profile, password, second factor, passkey, sessions, data and deletion."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import requests

from accounts.mfa import totp_algorithm
from tests import ports
from tests.live.browser.chromium import Chromium

EMAIL, PASSWORD, NEW_PASSWORD = "ada@example.com", "correct horse 1", "a quite different phrase 7"


def arrive(browser: Chromium, path: str, text: str = "") -> None:
    """Wait for a page and a text on it; nothing may be wider than the window."""
    browser.wait_for(
        f"location.pathname === {json.dumps(path)} && document.readyState === 'complete'"
        f" && document.querySelector('main').innerText.includes({json.dumps(text)})"
    )
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def submit(browser: Chromium) -> None:
    browser.click("main form button.primary, main form button.danger")


def test_a_user_manages_and_deletes_the_account(browser: Chromium, start_service: Callable[..., str]) -> None:
    port = ports.free_port()
    service = f"http://localhost:{port}"  # browsers bind passkeys to names of hosts
    start_service(
        port=port,
        WEB_CONCURRENCY="1",
        AUTH_API_EXTERNAL_URL=service,
        AUTH_PAGES_ENABLED="true",
        AUTH_MAILER_AUTOCONFIRM="true",
        AUTH_MFA_RECOVERY_CODES_ENABLED="true",
        AUTH_PASSKEY_ENABLED="true",
        AUTH_WEBAUTHN_RP_ID="localhost",
        AUTH_WEBAUTHN_RP_DISPLAY_NAME="The service",
        AUTH_WEBAUTHN_RP_ORIGINS=service,
    )
    account = {"email": EMAIL, "password": PASSWORD}
    assert requests.post(f"{service}/signup", json=account, timeout=60).status_code == 200
    browser.watch_policy_violations()
    browser.add_authenticator(transport="internal")
    browser.resize(width=390, height=800)

    browser.open(f"{service}/account/profile")
    browser.fill(name=EMAIL, password=PASSWORD)
    submit(browser)
    arrive(browser, "/account/profile", "Language")
    browser.fill(name="Ada Lovelace")
    submit(browser)
    arrive(browser, "/account/profile", "Your profile is saved.")
    browser.click("nav.account a[href='/account']")
    arrive(browser, "/account", "Ada Lovelace")

    browser.click("nav.account a[href='/account/password']")
    arrive(browser, "/account/password")
    browser.fill(current_password=PASSWORD, password=NEW_PASSWORD)
    submit(browser)
    arrive(browser, "/account/password", "Your password is changed.")
    account["password"] = NEW_PASSWORD

    browser.click("nav.account a[href='/account/factors']")
    arrive(browser, "/account/factors")
    browser.click("a[href='/account/factors/app']")
    arrive(browser, "/account/factors/app")
    submit(browser)
    arrive(browser, "/account/factors/app/code")
    assert browser.evaluate("document.querySelector('.qr svg').getBoundingClientRect().width") > 100
    secret = browser.evaluate("document.querySelector('main code').innerText")
    browser.fill(code=totp_algorithm.code_at(int(time.time()) // 30, secret=secret))
    submit(browser)
    arrive(browser, "/account/factors", "Your second factor is added.")
    browser.click("a[href='/account/factors/recovery-codes']")
    arrive(browser, "/account/factors/recovery-codes")
    submit(browser)
    assert len(browser.wait_for("document.querySelector('#codes')?.value").split()) == 10

    browser.open(f"{service}/account/passkeys/new")
    arrive(browser, "/account/passkeys/new")
    browser.fill(name="My laptop")
    submit(browser)
    arrive(browser, "/account/passkeys", "My laptop")

    signed_in = requests.post(f"{service}/token?grant_type=password", json=account, timeout=60).json()
    headers = {"Authorization": f"Bearer {signed_in['access_token']}"}
    browser.click("nav.account a[href='/account/sessions']")
    arrive(browser, "/account/sessions", "(this browser)")
    browser.click("button[name=session]")
    arrive(browser, "/account/sessions", "The session is ended.")
    assert requests.get(f"{service}/user", headers=headers, timeout=60).status_code == 403

    browser.click("nav.account a[href='/account/data']")
    arrive(browser, "/account/data")
    downloaded = browser.evaluate(
        "fetch('', {method: 'POST', body: new FormData(document.querySelector('main form'))})"
        ".then((answer) => answer.json()).then((document) => document.held.users[0].email)"
    )
    assert downloaded == EMAIL
    browser.click("a[href='/account/deletion']")
    arrive(browser, "/account/deletion")
    browser.fill(address=EMAIL)
    submit(browser)
    arrive(browser, "/account/deleted", "Goodbye")
    assert requests.post(f"{service}/token?grant_type=password", json=account, timeout=60).status_code == 400
    browser.open(f"{service}/account")
    arrive(browser, "/account/sign-in")
    assert browser.policy_violations() == []
