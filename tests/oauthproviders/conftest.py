"""A provider, a browser, and the settings that the two need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oauthproviders.base import backends
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer
from tests.oauthproviders.browser import SITE, Browser, GitHub, configured


@pytest.fixture
def peer() -> Iterator[HttpPeer]:
    with HttpPeer() as running:
        yield running


@pytest.fixture
def github(peer: HttpPeer, auth_config: ChangeConfig) -> GitHub:
    """Where Ada signs in, known by a verified address."""
    auth_config(
        site={"url": SITE, "allow_list": (f"{SITE}/**",)},
        providers={"github": configured(url=peer.url)},
        signup={"manual_linking_enabled": True},
    )
    backends._uses_body.clear()  # what another test's provider of the same address has taken
    return GitHub(peer)


@pytest.fixture
def browser() -> Browser:
    return Browser()
