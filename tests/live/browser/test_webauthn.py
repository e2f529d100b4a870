"""Passkeys and WebAuthn factors through auth-js in a browser with a virtual authenticator."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.live.browser.chromium import Chromium
from tests.live.clients import node

MODULES = node.FOLDER / "node_modules"
EMAIL, PASSWORD = "ada@example.com", "correct horse 1"
PAGE = """<!doctype html><title>The application</title>
<script type="importmap">{"imports": {"tslib": "/tslib/tslib.es6.mjs"}}</script>
<script type="module">
import { AuthClient } from '/@supabase/auth-js/dist/module/index'
window.open_client = (url) => new AuthClient({
  url, persistSession: true, autoRefreshToken: false, storageKey: 'session', experimental: { passkey: true },
})
window.good = ({ data, error }) => { if (error) throw new Error(`${error.code}: ${error.message}`); return data }
window.level = (session) => {
  const claims = JSON.parse(atob(session.access_token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')))
  return { aal: claims.aal, methods: claims.amr.map(({ method }) => method) }
}
</script>"""


class Application(ThreadingHTTPServer):
    """The page and the modules that it imports, on a host that credentials can be bound to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        file = MODULES / self.path.strip("/")
        file = file if file.suffix in (".js", ".mjs") else Path(f"{file}.js")
        is_page = self.path == "/"
        self.send_response(200 if is_page or file.is_file() else 404)
        self.send_header("Content-Type", "text/html" if is_page else "text/javascript")
        self.end_headers()
        self.wfile.write(PAGE.encode() if is_page else file.read_bytes() if file.is_file() else b"")

    def log_message(self, *_: object) -> None:
        """Log nothing; the browser shows errors."""


@pytest.fixture
def application() -> Iterator[Application]:
    node.install()
    with Application() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def run_script(browser: Chromium, start_service: Callable[..., str], application: Application) -> Callable[[str], Any]:
    """`run_script(script)` runs JavaScript in the page, with a `client` of the service, and returns its value."""
    service = start_service(
        AUTH_MAILER_AUTOCONFIRM="true",
        AUTH_PASSKEY_ENABLED="true",
        AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED="true",
        AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED="true",
        AUTH_WEBAUTHN_RP_ID="localhost",
        AUTH_WEBAUTHN_RP_DISPLAY_NAME="The application",
        AUTH_WEBAUTHN_RP_ORIGINS=application.url,
    )

    def run_script(script: str) -> Any:
        browser.wait_for("!!window.open_client")
        opened = f"window.client ??= open_client({json.dumps(service)})"
        return browser.evaluate(f"(async () => {{ {opened}; {script} }})()")

    browser.open(application.url)
    browser.wait_for("!!window.open_client")
    run_script(f"good(await client.signUp({{email: '{EMAIL}', password: '{PASSWORD}'}}))")
    return run_script


def test_a_passkey_is_registered_used_renamed_and_removed(browser: Chromium, run_script: Callable[[str], Any]) -> None:
    browser.add_authenticator(transport="internal")
    made = run_script("return good(await client.registerPasskey())")
    assert set(made) == {"id", "friendly_name", "created_at"}
    # The authenticator knows that it has one.
    assert run_script("const {error} = await client.registerPasskey(); return error.name") == "InvalidStateError"
    signed_in = run_script(
        "await client.signOut();"
        "const {user, session} = good(await client.signInWithPasskey());"
        "return {email: user.email, ...level(session)}"
    )
    assert signed_in == {"email": EMAIL, "aal": "aal1", "methods": ["passkey"]}
    assert run_script("return good(await client.getUser()).user.email") == EMAIL
    renamed = run_script(
        f"return good(await client.passkey.update({{passkeyId: '{made['id']}', friendlyName: 'Laptop'}}))"
    )
    assert (renamed["friendly_name"], bool(renamed["last_used_at"])) == ("Laptop", True)
    assert run_script("return good(await client.passkey.list())") == [renamed]
    run_script(f"good(await client.passkey.delete({{passkeyId: '{made['id']}'}}))")
    assert run_script("return good(await client.passkey.list())") == []
    error_code = run_script(
        "await client.signOut(); const {error} = await client.signInWithPasskey(); return error.code"
    )
    assert error_code == "webauthn_verification_failed"


def test_an_enrolled_key_raises_the_next_sign_in_to_aal2(browser: Chromium, run_script: Callable[[str], Any]) -> None:
    browser.add_authenticator(transport="usb")
    raised = run_script("return level(good(await client.mfa.webauthn.register({friendlyName: 'key'})))")
    assert raised == {"aal": "aal2", "methods": ["mfa/webauthn", "password"]}
    factors = run_script("return good(await client.mfa.listFactors())")
    (factor,) = factors["webauthn"]
    assert (factor["friendly_name"], factor["status"]) == ("key", "verified")
    lower = run_script(
        "await client.signOut();"
        f"good(await client.signInWithPassword({{email: '{EMAIL}', password: '{PASSWORD}'}}));"
        "const {currentLevel, nextLevel} = good(await client.mfa.getAuthenticatorAssuranceLevel());"
        "return [currentLevel, nextLevel]"
    )
    assert lower == ["aal1", "aal2"]
    again = run_script(f"return level(good(await client.mfa.webauthn.authenticate({{factorId: '{factor['id']}'}})))")
    assert again["aal"] == "aal2"
    run_script(f"good(await client.mfa.unenroll({{factorId: '{factor['id']}'}}))")
    assert run_script("return good(await client.mfa.listFactors()).all") == []


def test_a_page_of_another_origin_is_rejected(browser: Chromium, run_script: Callable[[str], Any]) -> None:
    browser.add_authenticator(transport="internal")
    run_script("good(await client.registerPasskey())")
    with Application() as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        # Browsers ignore the port of the host that credentials are bound to.
        browser.open(elsewhere.url)
        browser.wait_for(f"location.origin === {json.dumps(elsewhere.url)}")
        error = run_script("const {error} = await client.signInWithPasskey(); return [error.status, error.code]")
        assert error == [400, "webauthn_verification_failed"]
        elsewhere.shutdown()
