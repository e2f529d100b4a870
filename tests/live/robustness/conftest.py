"""A mail server for tests of a running server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.clients.postbox import Postbox


@pytest.fixture
def post() -> Iterator[Postbox]:
    with Postbox() as running:
        yield running
