"""A mail server for tests of a running server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.clients.mailbox_server import MailboxServer


@pytest.fixture
def mailbox() -> Iterator[MailboxServer]:
    with MailboxServer() as running:
        yield running
