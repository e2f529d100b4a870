"""Sign-in methods of attacks, and the provider and the browser of those on sign-in with providers."""

from __future__ import annotations

import pytest

from tests.conftest import ChangeConfig
from tests.oauthproviders.conftest import _clear_caches, browser, github, server
from tests.oauthproviders.flow.conftest import issuer
from tests.security.sign_in_attempts import CODE, PHONE

__all__ = ["_clear_caches", "browser", "github", "issuer", "server"]


@pytest.fixture
def sign_in_methods(auth_config: ChangeConfig) -> None:
    """Enable phones, with a constant code, and the linking of identities."""
    auth_config(signup={"phone_enabled": True, "manual_linking_enabled": True}, sms={"test_codes": {PHONE: CODE}})
