"""Fixtures of the tests with hostile requests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.accounts.passkeys.passkey_requests import PARTY
from tests.conftest import ChangeConfig


@pytest.fixture
def passkeys(auth_config: ChangeConfig) -> None:
    auth_config(passkeys={"enabled": True}, webauthn=PARTY)


@pytest.fixture
def no_unhandled_exception(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test during which an error is logged."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
