"""A provider, a browser, and the settings that both need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import responses

from oauthproviders.base import backends
from oauthproviders.oidc import openid_connect
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import FakeServer, HttpPeer, MockedServer
from tests.oauthproviders.browser import SITE, Browser, GitHub, provider_settings


@pytest.fixture(autouse=True)
def _clear_caches() -> Iterator[None]:
    """Remove the documents of issuers and the client authentication styles of other tests."""
    openid_connect.clear_caches()
    backends.sends_credentials_in_body.clear()
    yield
    openid_connect.clear_caches()
    backends.sends_credentials_in_body.clear()


@pytest.fixture
def server(mocked_requests: responses.RequestsMock) -> MockedServer:
    return MockedServer(mocked_requests, url="https://provider.example.com")


@pytest.fixture
def github(server: MockedServer, auth_config: ChangeConfig) -> GitHub:
    """A GitHub server with the signed-in user Ada, whose address is verified."""
    return use_github(server, auth_config)


def use_github(server: FakeServer, auth_config: ChangeConfig) -> GitHub:
    auth_config(
        site={"url": SITE, "allow_list": (f"{SITE}/**",)},
        providers={"github": provider_settings(url=server.url)},
        signup={"manual_linking_enabled": True},
    )
    return GitHub(server)


@pytest.fixture
def github_peer(peer: HttpPeer, auth_config: ChangeConfig) -> GitHub:
    """The same on loopback."""
    return use_github(peer, auth_config)


@pytest.fixture
def browser() -> Browser:
    return Browser()
