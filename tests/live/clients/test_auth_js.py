"""Runs the published JavaScript client in Node against a real server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.fakes.http_peer import HttpPeer, Received, Response, in_json
from tests.live.clients import node
from tests.live.clients.conftest import APP, CLIENT, CLIENT_SECRET, Service
from tests.live.clients.node import OpenIdProvider
from tests.oauthproviders.wallets import wallets
from tests.oauthproviders.wallets.wallets import EthereumWallet

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


class Wallet(HttpPeer):
    """An Ethereum wallet that approves everything: the requests of a provider (EIP-1193), over HTTP."""

    account = EthereumWallet(seed=2)

    def next_response(self, received: Received) -> Response:
        super().next_response(received)
        match received.json():
            case {"method": "eth_requestAccounts"}:
                return in_json([self.account.address])
            case {"method": "eth_chainId"}:
                return in_json("0x1")
            case {"method": "personal_sign", "params": [text, _]}:
                return in_json(self.account.sign(bytes.fromhex(text.removeprefix("0x")).decode()))
        return in_json(None, status=400)


class Runner:
    """A Node process that runs one scenario after the other, because its start takes longer than most of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, scenario: str) -> str | None:
        """The error of the scenario; None if it passes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{scenario}\n")
        self._process.stdin.flush()
        error: str | None = json.loads(self._process.stdout.readline())
        return error


@pytest.fixture(scope="module")
def runner(service: Service, provider: OpenIdProvider) -> Iterator[Runner]:
    wallet = EthereumWallet()
    message = wallets.message(
        wallet.name, wallet.address, domain="app.example.com", URI="https://app.example.com/in", Chain_ID="1"
    )
    env = {
        "AUTH_URL": service.url,
        "EMAILS_URL": service.mailbox.url,
        "ADMIN_TOKEN": service.admin_token,
        "PROVIDER_URL": provider.url,
        "APP_ID": APP,
        "APP_ADDRESS": APP_ADDRESS,
        "ETHEREUM_MESSAGE": message,
        "ETHEREUM_SIGNATURE": wallet.sign(message),
    }
    with (
        Wallet() as ethereum,
        subprocess.Popen(
            [node.NODE, "scenarios.mjs"],
            cwd=node.FOLDER,
            env={**env, "ETHEREUM_WALLET": ethereum.url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield Runner(process)
        process.kill()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_auth_js(scenario: str, runner: Runner) -> None:
    error = runner.run(scenario)
    assert error is None, error
