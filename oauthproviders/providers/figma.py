"""Figma.

Its addresses are unverified: `email` is the "email associated with the user's account", without a statement about
verification (https://developers.figma.com/docs/rest-api/users-types/).
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
    id: str
    email: str | None = None
    handle: str | None = None
    img_url: str | None = None


class Figma(OAuth2, BaseOAuth2[Any]):
    name = "figma"
    AUTHORIZATION_URL = "https://www.figma.com/oauth"
    ACCESS_TOKEN_URL = "https://api.figma.com/v1/oauth/token"
    default_scopes = ("current_user:read",)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url("https://api.figma.com/v1/me"), _User)
        identity_data = profiles.identity_data(
            iss="https://api.figma.com",
            sub=user.id,
            name=user.handle,
            full_name=user.handle,
            avatar_url=user.img_url,
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=False))
