"""Runs unmodified OpenID Connect and OAuth client libraries against a real server, with the user's browser."""

from __future__ import annotations

import html
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
import requests

from oauthserver.clients.client_metadata import DEVICE_CODE
from tests.factories import PASSWORD
from tests.live.clients import node
from tests.live.clients.conftest import Service
from tests.live.servers import PROJECT

CALLBACK = "https://shop.example.com/callback"
ALLAUTH_CALLBACK = "https://shop.example.com/oidc/authsvc/login/callback/"
PROGRAMS = "tests.live.clients.programs"
_PASSWORD = f"{PASSWORD} 1"
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?')
_MAX_STEPS = 12


@dataclass(frozen=True, kw_only=True)
class Browser:
    """The browser of a user, who signs in on the hosted pages and allows each request."""

    service: Service
    user_id: str
    email: str
    _cookies: requests.Session = field(default_factory=requests.Session)

    def open(self, url: str) -> str:
        """The URL at which the browser arrives: that of the client, or the last page of the device authorization."""
        response = self._cookies.get(url, allow_redirects=False, timeout=10)
        for _ in range(_MAX_STEPS):
            assert response.status_code in (200, 302, 303), f"{response.url}: {response.status_code} {response.text}"
            if response.status_code == 200:
                form = {name: html.unescape(value) for name, value in _HIDDEN.findall(response.text)}
                response = self._cookies.post(
                    response.url, {**form, **self._fields(response)}, allow_redirects=False, timeout=10
                )
                continue
            target = urljoin(response.url, response.headers["Location"])
            if not target.startswith(f"{self.service.url}/") or target.endswith("/oauth/device/approved"):
                return target
            response = self._cookies.get(target, allow_redirects=False, timeout=10)
        raise AssertionError(f"the browser has not left {response.url}")

    def _fields(self, page: requests.Response) -> dict[str, str]:
        """The fields that the user fills in on a page."""
        parts = urlsplit(page.url)
        if parts.path == "/account/sign-in":
            return {"name": self.email, "password": _PASSWORD}
        assert parts.path in ("/oauth/consent", "/oauth/device"), page.url
        if 'value="approve"' in page.text:
            return {"action": "approve"}
        return {"user_code": parse_qs(parts.query)["user_code"][0]}


def administer(service: Service, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {service.admin_token}"}
    response = requests.post(f"{service.url}/admin{path}", json=body, headers=headers, timeout=10)
    response.raise_for_status()
    content: dict[str, Any] = response.json()
    return content


@pytest.fixture
def browser(service: Service) -> Browser:
    email = f"{secrets.token_hex(6)}@example.com"
    account = {"email": email, "password": _PASSWORD, "email_confirm": True, "user_metadata": {"name": "Ada"}}
    return Browser(service=service, user_id=administer(service, "/users", account)["id"], email=email)


def register(service: Service, *, method: str, redirect_uri: str = CALLBACK, **metadata: Any) -> dict[str, Any]:
    """The `client_id` and `client_secret` of a new client."""
    body = {"client_name": "Shop", "redirect_uris": [redirect_uri], "token_endpoint_auth_method": method, **metadata}
    client = administer(service, "/oauth/clients", body)
    return {name: client[name] for name in ("client_id", "client_secret") if name in client}


def run(command: list[str], browser: Browser, **env: str) -> Any:
    """The result of a program, which names URLs for the browser and gets those at which the browser arrives."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    with subprocess.Popen(
        command,
        cwd=node.FOLDER if command[0] == str(node.NODE) else PROJECT,
        env={**kept, "ISSUER": browser.service.url, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in program.stdout:
            message = json.loads(line)
            if "result" in message:
                return message["result"]
            program.stdin.write(f"{browser.open(message['open'])}\n")
            program.stdin.flush()
    raise AssertionError(f"{command} ended with {program.returncode} and without a result")


def test_javascript_libraries(service: Service, browser: Browser) -> None:
    """openid-client and oidc-client-ts.

    Discovery, ID token, userinfo, refresh, each way to authenticate, registration, pushed requests, introspection,
    revocation, device authorization and client credentials.
    """
    node.install()
    clients = {
        "basic": register(service, method="client_secret_basic"),
        "post": register(service, method="client_secret_post"),
        "public": register(service, method="none"),
        "device": register(service, method="none", grant_types=[DEVICE_CODE]),
        "service": register(service, method="client_secret_basic", grant_types=["client_credentials"]),
    }
    result = run([str(node.NODE), "openid_clients.mjs"], browser, CLIENTS=json.dumps(clients), REDIRECT_URI=CALLBACK)
    user = {"email": browser.email, "verified": True}
    assert result.pop("oidcClientTs") == user
    assert result.pop("refused") == "invalid_request"
    assert result.pop("device") == browser.email
    assert result.pop("assertion") == {"active": True, "sub": browser.user_id, "revoked": False}
    assert result.pop("service") == "urn:example:orders"
    assert result == {key: {**user, "name": "Ada"} for key in ("basic", "post", "public", "dynamic", "silent")}


def test_django_allauth(service: Service, browser: Browser) -> None:
    """A Django site with the OpenID Connect provider of django-allauth creates an account for the user."""
    client = register(service, method="client_secret_basic", redirect_uri=ALLAUTH_CALLBACK)
    result = run([sys.executable, "-m", f"{PROGRAMS}.allauth_site"], browser, CLIENT=json.dumps(client))
    assert (result["uid"], result["email"], result["location"]) == (browser.user_id, browser.email, "/welcome")
    assert {"sub", "email", "auth_time"} <= set(result["claims"])


def test_mcp_client(browser: Browser) -> None:
    """An MCP client, which knows the URL of an MCP server only, calls a tool with a token for that server."""
    result = run([sys.executable, "-m", f"{PROGRAMS}.mcp_application"], browser)
    assert (result["user"], result["scope"]) == (browser.user_id, "email offline_access")
