"""Fly.io.

Its addresses are unverified: the documents mention a "working email alias", and contain no statement about verification
(https://fly.io/docs/reference/extensions_api/).
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.oauth import BaseOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken


class _User(msgspec.Struct, frozen=True):
    user_id: str
    user_name: str | None = None
    email: str | None = None


class Fly(OAuth2, BaseOAuth2[Any]):
    name = "fly"
    AUTHORIZATION_URL = "https://api.fly.io/oauth/authorize"
    ACCESS_TOKEN_URL = "https://api.fly.io/oauth/token"
    default_scopes = ("read",)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        document = self.fetch_document(token, self.with_base_url("https://api.fly.io/oauth/token/info"), dict[str, Any])
        user = profiles.convert(document, _User)
        identity_data = profiles.identity_data(
            iss="https://api.fly.io",
            sub=user.user_id,
            full_name=user.user_name,
            custom_claims=profiles.pick(
                document, "resource_owner_id", "organizations", "application", "scope", "created_at"
            ),
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=False))
