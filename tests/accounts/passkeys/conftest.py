"""Settings for tests of passkeys."""

from __future__ import annotations

import pytest

from tests.accounts.passkeys.passkey_requests import PARTY
from tests.conftest import ChangeConfig


@pytest.fixture(autouse=True)
def _passkeys(auth_config: ChangeConfig) -> None:
    auth_config(passkeys={"enabled": True}, webauthn=PARTY)
