"""Sign-in to the console with a security key as the only second factor, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import requests

from tests import ports
from tests.live.browser.chromium import Chromium
from tests.live.browser.console_steps import EMAIL, PASSWORD, fill_in, make_operator, state

# An application on the host of the service enrols the user's key as a second factor.
ENROL = """(async (bearer) => {
    const ask = async (path, body) => {
        const headers = {Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json'}
        const answer = await fetch(path, {method: 'POST', headers, body: JSON.stringify(body)})
        if (!answer.ok) throw new Error(await answer.text())
        return answer.json()
    }
    const factor = await ask('/factors', {factor_type: 'webauthn', friendly_name: 'key'})
    const {id, webauthn} = await ask(`/factors/${factor.id}/challenge`, {})
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(webauthn.credential_options.publicKey)
    const made = await navigator.credentials.create({publicKey})
    const answer = {type: 'create', credential_response: made.toJSON()}
    await ask(`/factors/${factor.id}/verify`, {challenge_id: id, webauthn: answer})
    return factor.id
})(%s)"""


@pytest.fixture
def service(start_service: Callable[..., str], fresh_database_url: str) -> str:
    """The URL of a server that is its own WebAuthn relying party and has an operator."""
    port = ports.free_port()
    # Browsers bind keys to names of hosts, not to addresses.
    service = f"http://localhost:{port}"
    start_service(
        port=port,
        AUTH_MAILER_AUTOCONFIRM="true",
        AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED="true",
        AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED="true",
        AUTH_WEBAUTHN_RP_ID="localhost",
        AUTH_WEBAUTHN_RP_DISPLAY_NAME="The service",
        AUTH_WEBAUTHN_RP_ORIGINS=service,
    )
    make_operator(f"http://127.0.0.1:{port}", fresh_database_url)
    return service


@pytest.fixture
def factor_id(browser: Chromium, service: str) -> str:
    """Enrol the browser's key as the operator's only factor."""
    account = {"email": EMAIL, "password": PASSWORD}
    token_url = f"{service.replace('localhost', '127.0.0.1')}/token?grant_type=password"
    signed_in = requests.post(token_url, json=account, timeout=60).json()
    browser.add_authenticator(transport="usb")
    browser.open(f"{service}/health")
    browser.wait_for("location.pathname === '/health' && document.readyState === 'complete'")
    return str(browser.evaluate(ENROL % json.dumps(signed_in["access_token"])))


def sign_in(browser: Chromium, service: str) -> None:
    """The first step."""
    browser.open(f"{service}/operator/accounts/user/")
    state(browser, "/operator/login/")
    fill_in(browser, "#id_name", EMAIL)
    fill_in(browser, "#id_password", PASSWORD)
    browser.click("button.default")
    assert state(browser, "/operator/second-step/")["heading"] == "Second factor"


def level(database_url: str) -> Any:
    with psycopg.connect(database_url) as connection:
        sql = "SELECT aal, factor_id::text FROM sessions ORDER BY created_at DESC LIMIT 1"
        return connection.execute(sql).fetchone()


def test_only_the_enrolled_key_completes_the_sign_in(
    browser: Chromium, service: str, factor_id: str, fresh_database_url: str
) -> None:
    browser.watch_policy_violations()
    sign_in(browser, service)
    assert level(fresh_database_url) == ("aal1", None)
    browser.click("button[value=key]")
    state(browser, "/operator/accounts/user/")
    assert browser.evaluate("document.querySelector('.operator-name').innerText") == EMAIL
    assert level(fresh_database_url) == ("aal2", factor_id)

    browser.click("#logout-form button")
    state(browser, "/operator/login/")
    browser.forget_credentials()
    sign_in(browser, service)
    browser.click("button[value=key]")
    message = "No security key responded."
    browser.wait_for(f"document.querySelector('#key-status')?.innerText === {json.dumps(message)}")
    assert browser.evaluate("document.querySelector('#security-key button').disabled") is False
    assert level(fresh_database_url) == ("aal1", None)
    assert browser.policy_violations() == []
