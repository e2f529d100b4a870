"""The issuer of ID tokens."""

from __future__ import annotations

import pytest

from tests.conftest import ChangeConfig
from tests.fakes.http_peer import MockedServer
from tests.fakes.issuer import Issuer
from tests.oauthproviders.flow.id_token_requests import use_issuer


@pytest.fixture
def issuer(server: MockedServer, auth_config: ChangeConfig) -> Issuer:
    """A Keycloak realm; every other provider is enabled too."""
    return use_issuer(server, auth_config)
