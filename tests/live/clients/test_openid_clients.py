"""Runs unmodified OpenID Connect and OAuth client libraries against a real server, with the user's browser."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from tests.factories import PASSWORD
from tests.live.clients import node
from tests.live.clients.conftest import Service
from tests.live.servers import PROJECT

CALLBACK = "https://shop.example.com/callback"
ALLAUTH_CALLBACK = "https://shop.example.com/oidc/authsvc/login/callback/"
PROGRAMS = "tests.live.clients.programs"


@dataclass(frozen=True, kw_only=True)
class Browser:
    """The browser of a user, who approves each request."""

    service: Service
    user_id: str
    email: str
    access_token: str

    def open(self, url: str) -> str:
        """The URL of the client at which the browser arrives."""
        started = requests.get(url, allow_redirects=False, timeout=10)
        assert started.status_code == 302, started.text
        location = started.headers["Location"]
        authorization_id = parse_qs(urlsplit(location).query).get("authorization_id")
        if authorization_id is None:
            return location
        request = f"{self.service.url}/oauth/authorizations/{authorization_id[0]}"
        headers = {"Authorization": f"Bearer {self.access_token}"}
        shown = requests.get(request, headers=headers, timeout=10).json()
        if "redirect_url" not in shown:
            decision = {"action": "approve"}
            shown = requests.post(f"{request}/consent", json=decision, headers=headers, timeout=10).json()
        return str(shown["redirect_url"])


def administer(service: Service, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {service.admin_token}"}
    response = requests.post(f"{service.url}/admin{path}", json=body, headers=headers, timeout=10)
    response.raise_for_status()
    content: dict[str, Any] = response.json()
    return content


@pytest.fixture
def browser(service: Service) -> Browser:
    email = f"{secrets.token_hex(6)}@example.com"
    account = {"email": email, "password": f"{PASSWORD} 1", "email_confirm": True, "user_metadata": {"name": "Ada"}}
    user = administer(service, "/users", account)
    session = requests.post(f"{service.url}/token?grant_type=password", json=account, timeout=10).json()
    return Browser(service=service, user_id=user["id"], email=email, access_token=session["access_token"])


def register(service: Service, *, method: str, redirect_uri: str = CALLBACK) -> dict[str, Any]:
    """The `client_id` and `client_secret` of a new client."""
    metadata = {"client_name": "Shop", "redirect_uris": [redirect_uri], "token_endpoint_auth_method": method}
    client = administer(service, "/oauth/clients", metadata)
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
    """openid-client and oidc-client-ts: discovery, ID token, userinfo, refresh, and each way to authenticate."""
    node.install()
    clients = {
        name: register(service, method=method)
        for name, method in (("basic", "client_secret_basic"), ("post", "client_secret_post"), ("public", "none"))
    }
    result = run([str(node.NODE), "openid_clients.mjs"], browser, CLIENTS=json.dumps(clients), REDIRECT_URI=CALLBACK)
    user = {"email": browser.email, "verified": True}
    assert result.pop("oidcClientTs") == user
    assert result.pop("refused") == "invalid_request"
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
