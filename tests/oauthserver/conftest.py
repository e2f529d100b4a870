"""Fixtures for tests of the OAuth server."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import timedelta

import pytest

from oauthserver.clients import client_keys
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer
from tests.oauthserver.client_application import ISSUER
from tokens.jwt import signing_keys

SIGNING_KEY = signing_keys.generate(algorithm="ES256")


@pytest.fixture(autouse=True)
def _enabled(auth_config: ChangeConfig) -> None:
    """Enable the OAuth server with an asymmetric signing key; HS256 tokens of administrators stay valid."""
    auth_config(
        oauth_server={
            "enabled": True,
            "allow_dynamic_registration": True,
            "authorization_path": "/oauth/consent",
            "authorization_ttl": timedelta(minutes=10),
        },
        jwt={"issuer": ISSUER, "keys": (SIGNING_KEY,), "valid_methods": ("ES256", "HS256")},
    )


@pytest.fixture
def keys_peer(peer: HttpPeer, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    """A server of the client, whose loopback address counts as public."""
    monkeypatch.setattr(ipaddress.IPv4Address, "is_global", True)
    client_keys.key_sets.clear()
    yield peer
    client_keys.key_sets.clear()
