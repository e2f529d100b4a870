"""The console of an administrator, and providers."""

from __future__ import annotations

import pytest
import responses

from oauthproviders.models import CustomProvider
from tests.accounts.administration.admin_requests import ask
from tests.authsvc.console.conftest import Console, sign_in_as
from tests.conftest import Api, ChangeConfig
from tests.fakes.http_peer import MockedServer, in_json
from tests.fakes.issuer import Issuer, SigningKey
from tests.oauthproviders.admin.console_pages import ACME

KEY = SigningKey()


@pytest.fixture
def console() -> Console:
    """The console of a signed-in administrator."""
    return sign_in_as("svc_admin")


@pytest.fixture
def acme(api: Api) -> CustomProvider:
    definition = {"provider_type": "oauth2", "scopes": ["profile"], "attribute_mapping": {"name": "nick"}, **ACME}
    assert ask(api, "POST", "/admin/custom-providers", definition).status_code == 201
    return CustomProvider.objects.get()


@pytest.fixture
def server(mocked_requests: responses.RequestsMock) -> MockedServer:
    """A server whose name needs no DNS."""
    return MockedServer(mocked_requests, url="https://127.0.0.1:9443")


@pytest.fixture
def issuer(server: MockedServer, auth_config: ChangeConfig) -> Issuer:
    """An OpenID Connect provider that accepts the client."""
    auth_config(custom_providers={"private_networks_enabled": True})
    issuer = Issuer(server, key=KEY)
    server.respond(in_json({"error": "invalid_grant"}, status=400), path="/token")
    return issuer
