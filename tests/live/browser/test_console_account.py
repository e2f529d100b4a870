"""The operator's own account in a real browser: forgotten password by email, second factor, passkey, sessions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import requests

from accounts.mfa import totp_algorithm
from tests import ports
from tests.fakes.smtp import FakeSmtp
from tests.live.browser.chromium import Chromium
from tests.live.browser.console_steps import EMAIL, PASSWORD, fill_in, make_operator, state
from tests.timeouts import wait_until

NEW_PASSWORD = "a quite different phrase 7"
ACCOUNT = "/operator/account/"


def link_in(smtp: FakeSmtp, *, origin: str) -> str:
    """The link in the next email, after its arrival."""
    wait_until(lambda: smtp.received, "an email")
    body = smtp.received[0].message.get_body(("plain",))
    assert body is not None
    match = re.search(rf"{re.escape(origin)}/operator/reset-password/\?token=[0-9a-f]{{56}}", body.get_content())
    assert match, body.get_content()
    return match[0]


def sign_in(browser: Chromium) -> None:
    state(browser, "/operator/login/")
    fill_in(browser, "#id_name", EMAIL)
    fill_in(browser, "#id_password", NEW_PASSWORD)
    browser.click("#sign-in button.default")


def sign_out(browser: Chromium) -> None:
    browser.click("#logout-form button")
    state(browser, "/operator/login/")


def follow(browser: Chromium, path: str, to: str = "") -> None:
    """Click the link of the account page."""
    browser.click(f"#content a[href='{path}']")
    state(browser, to or path)


def shown(browser: Chromium, text: str) -> None:
    browser.wait_for(f"document.querySelector('#content')?.innerText.includes({json.dumps(text)})")


def code_of(secret: str) -> str:
    return totp_algorithm.code_at(int(time.time()) // 30, secret=secret)


def test_an_operator_recovers_and_protects_the_account(
    browser: Chromium, start_service: Callable[..., str], fresh_database_url: str
) -> None:
    port = ports.free_port()
    service = f"http://localhost:{port}"  # browsers bind passkeys to names of hosts
    with FakeSmtp() as smtp:
        api = start_service(
            port=port,
            WEB_CONCURRENCY="1",
            AUTH_API_EXTERNAL_URL=service,
            AUTH_MAILER_AUTOCONFIRM="true",
            AUTH_MAILER_DEV_INBOX_ENABLED="false",
            AUTH_SMTP_HOST=smtp.host,
            AUTH_SMTP_PORT=str(smtp.port),
            AUTH_SMTP_ADMIN_EMAIL="noreply@example.com",
            AUTH_MFA_RECOVERY_CODES_ENABLED="true",
            AUTH_PASSKEY_ENABLED="true",
            AUTH_WEBAUTHN_RP_ID="localhost",
            AUTH_WEBAUTHN_RP_DISPLAY_NAME="The service",
            AUTH_WEBAUTHN_RP_ORIGINS=service,
        )
        make_operator(api, fresh_database_url)
        browser.watch_policy_violations()
        browser.add_authenticator(transport="internal")

        browser.open(f"{service}/operator/")
        state(browser, "/operator/login/")
        browser.click("a[href='/operator/forgotten-password/']")
        state(browser, "/operator/forgotten-password/")
        fill_in(browser, "#id_email", EMAIL)
        browser.click("button.default")
        shown(browser, "a message with a link is on its way")
        link = link_in(smtp, origin=service)

    browser.open("about:blank")
    browser.open(link)
    state(browser, "/operator/reset-password/")
    browser.click("button.default")
    state(browser, "/operator/new-password/")
    shown(browser, EMAIL)
    for field in ("password", "repeated"):
        fill_in(browser, f"#id_{field}", NEW_PASSWORD)
    browser.click("button.default")
    browser.wait_for("document.querySelector('.messagelist')?.innerText.includes('The password is changed')")
    account = {"email": EMAIL, "password": PASSWORD}
    assert requests.post(f"{api}/token?grant_type=password", json=account, timeout=60).status_code == 400
    browser.open(link)
    browser.click("button.default")
    browser.wait_for("document.querySelector('.errornote')?.innerText.includes('invalid or has expired')")
    browser.open(f"{service}/operator/")
    sign_in(browser)
    state(browser, "/operator/")

    browser.click(".operator-name")
    state(browser, ACCOUNT)
    follow(browser, f"{ACCOUNT}app/")
    browser.click("#content button.default")
    assert state(browser, f"{ACCOUNT}app/code/")["width"] == 0
    assert browser.evaluate("document.querySelector('.qr-code svg').getBoundingClientRect().width") > 100
    secret = browser.evaluate("document.querySelector('#secret').value")
    fill_in(browser, "#id_code", code_of(secret))
    browser.click("#content button.default")
    state(browser, ACCOUNT)
    shown(browser, "Authenticator app")

    follow(browser, f"{ACCOUNT}recovery-codes/")
    browser.click("#content button.default")
    codes = browser.wait_for("document.querySelector('#codes')?.value").split()
    assert len(codes) == 10
    browser.click("#content a.button.default")
    state(browser, ACCOUNT)

    follow(browser, f"{ACCOUNT}passkey/")
    browser.click("#content button.default")
    browser.wait_for("document.querySelector('.messagelist')?.innerText.includes('Passkey added')")

    sign_out(browser)
    sign_in(browser)
    state(browser, "/operator/second-step/")
    fill_in(browser, "#id_code", code_of(secret))
    browser.click("#second-factor button.default")
    state(browser, "/operator/")

    account["password"] = NEW_PASSWORD
    bearer = requests.post(f"{api}/token?grant_type=password", json=account, timeout=60).json()["access_token"]
    browser.open(f"{service}{ACCOUNT}")
    state(browser, ACCOUNT)
    browser.click("button[value='end']")
    browser.wait_for("document.querySelector('.messagelist')?.innerText.includes('Session ended.')")
    assert browser.evaluate("document.querySelector('#content').innerText.includes('This session')")
    headers = {"Authorization": f"Bearer {bearer}"}
    assert requests.get(f"{api}/user", headers=headers, timeout=60).status_code == 403

    sign_out(browser)
    browser.click("button[value='passkey']")
    state(browser, "/operator/second-step/")
    browser.evaluate("document.querySelector('#id_factor').value = 'recovery'")
    fill_in(browser, "#id_code", codes[0])
    browser.click("#second-factor button.default")
    state(browser, "/operator/")
    browser.open(f"{service}{ACCOUNT}")
    shown(browser, "Recovery codes")
    assert browser.evaluate("[...document.querySelectorAll('td')].some((cell) => cell.innerText === '9')")
    assert browser.policy_violations() == []
