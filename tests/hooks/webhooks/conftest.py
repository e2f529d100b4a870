"""Fixtures of webhooks: they are enabled, and a receiver listens on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hooks.webhooks import subscriptions
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response


@pytest.fixture(autouse=True)
def _enabled(auth_config: ChangeConfig) -> Iterator[None]:
    auth_config(webhooks={"enabled": True, "allow_private_networks": True})
    subscriptions.cache.clear()
    yield
    subscriptions.cache.clear()


@pytest.fixture
def receiver() -> Iterator[HttpPeer]:
    """A server that accepts every webhook unless a test sets other responses."""
    with HttpPeer() as running:
        running.respond(Response(status=204))
        yield running
