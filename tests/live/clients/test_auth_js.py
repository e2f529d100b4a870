"""Runs the published JavaScript client in Node against a real server."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.live.clients import node
from tests.live.clients.conftest import APP, CLIENT, CLIENT_SECRET, Service
from tests.live.clients.node import OpenIdProvider

SCENARIOS = re.findall(
    r"^scenario\('([^']+)'", (node.FOLDER / "scenarios.mjs").read_text(encoding="utf-8"), re.MULTILINE
)
assert SCENARIOS
APP_ADDRESS = "https://app.example.com/callback"


@pytest.fixture(scope="module")
def provider(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIdProvider]:
    node.install()
    clients = [
        {"client_id": CLIENT, "client_secret": CLIENT_SECRET, "redirect_uris": [f"{service.url}/callback"]},
        {"client_id": APP, "redirect_uris": [APP_ADDRESS], "token_endpoint_auth_method": "none"},
    ]
    folder = tmp_path_factory.mktemp("provider")
    with OpenIdProvider(folder=folder, port=service.provider_port, clients=clients) as running:
        yield running


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_auth_js(scenario: str, service: Service, provider: OpenIdProvider) -> None:
    ran = subprocess.run(
        [node.NODE, "scenarios.mjs", scenario],
        cwd=node.FOLDER,
        env={
            "AUTH_URL": service.url,
            "EMAILS_URL": service.post.url,
            "ADMIN_TOKEN": service.admin_token,
            "PROVIDER_URL": provider.url,
            "APP_ID": APP,
            "APP_ADDRESS": APP_ADDRESS,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
