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
        """Quiet: the browser shows what went wrong."""


@pytest.fixture
def application() -> Iterator[Application]:
    node.install()
    with Application() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def tell(browser: Chromium, start_service: Callable[..., str], application: Application) -> Callable[[str], Any]:
    """`tell(script)` runs it in the page, where `client` is that of the service, and returns its value."""
    service = start_service(
        AUTH_MAILER_AUTOCONFIRM="true",
        AUTH_PASSKEY_ENABLED="true",
        AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED="true",
        AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED="true",
        AUTH_WEBAUTHN_RP_ID="localhost",
        AUTH_WEBAUTHN_RP_DISPLAY_NAME="The application",
        AUTH_WEBAUTHN_RP_ORIGINS=application.url,
    )

    def tell(script: str) -> Any:
        browser.wait_for("!!window.open_client")
        opened = f"window.client ??= open_client({json.dumps(service)})"
        return browser.evaluate(f"(async () => {{ {opened}; {script} }})()")

    browser.open(application.url)
    browser.wait_for("!!window.open_client")
    tell(f"good(await client.signUp({{email: '{EMAIL}', password: '{PASSWORD}'}}))")
    return tell


def test_a_passkey_is_registered_used_renamed_and_removed(browser: Chromium, tell: Callable[[str], Any]) -> None:
    browser.add_authenticator(transport="internal")
    made = tell("return good(await client.registerPasskey())")
    assert set(made) == {"id", "friendly_name", "created_at"}
    # The authenticator knows that it has one.
    assert tell("const {error} = await client.registerPasskey(); return error.name") == "InvalidStateError"
    signed_in = tell(
        "await client.signOut();"
        "const {user, session} = good(await client.signInWithPasskey());"
        "return {email: user.email, ...level(session)}"
    )
    assert signed_in == {"email": EMAIL, "aal": "aal1", "methods": ["passkey"]}
    assert tell("return good(await client.getUser()).user.email") == EMAIL
    renamed = tell(f"return good(await client.passkey.update({{passkeyId: '{made['id']}', friendlyName: 'Laptop'}}))")
    assert (renamed["friendly_name"], bool(renamed["last_used_at"])) == ("Laptop", True)
    assert tell("return good(await client.passkey.list())") == [renamed]
    tell(f"good(await client.passkey.delete({{passkeyId: '{made['id']}'}}))")
    assert tell("return good(await client.passkey.list())") == []
    error_code = tell("await client.signOut(); const {error} = await client.signInWithPasskey(); return error.code")
    assert error_code == "webauthn_verification_failed"


def test_an_enrolled_key_raises_the_next_sign_in_to_aal2(browser: Chromium, tell: Callable[[str], Any]) -> None:
    browser.add_authenticator(transport="usb")
    raised = tell("return level(good(await client.mfa.webauthn.register({friendlyName: 'key'})))")
    assert raised == {"aal": "aal2", "methods": ["mfa/webauthn", "password"]}
    factors = tell("return good(await client.mfa.listFactors())")
    (factor,) = factors["webauthn"]
    assert (factor["friendly_name"], factor["status"]) == ("key", "verified")
    lower = tell(
        "await client.signOut();"
        f"good(await client.signInWithPassword({{email: '{EMAIL}', password: '{PASSWORD}'}}));"
        "const {currentLevel, nextLevel} = good(await client.mfa.getAuthenticatorAssuranceLevel());"
        "return [currentLevel, nextLevel]"
    )
    assert lower == ["aal1", "aal2"]
    again = tell(f"return level(good(await client.mfa.webauthn.authenticate({{factorId: '{factor['id']}'}})))")
    assert again["aal"] == "aal2"
    tell(f"good(await client.mfa.unenroll({{factorId: '{factor['id']}'}}))")
    assert tell("return good(await client.mfa.listFactors()).all") == []


def test_a_page_of_another_origin_is_rejected(browser: Chromium, tell: Callable[[str], Any]) -> None:
    browser.add_authenticator(transport="internal")
    tell("good(await client.registerPasskey())")
    with Application() as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        # The browser thinks nothing of another port of the host that credentials are bound to.
        browser.open(elsewhere.url)
        browser.wait_for(f"location.origin === {json.dumps(elsewhere.url)}")
        error = tell("const {error} = await client.signInWithPasskey(); return [error.status, error.code]")
        assert error == [400, "webauthn_verification_failed"]
        elsewhere.shutdown()
