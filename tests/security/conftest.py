"""The provider and the browser of the attacks on sign-in with providers."""

from __future__ import annotations

from tests.oauthproviders.conftest import _clear_caches, browser, github, server
from tests.oauthproviders.flow.test_id_token import issuer

__all__ = ["_clear_caches", "browser", "github", "issuer", "server"]
