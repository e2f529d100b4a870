"""X by OAuth 2.0. `confirmed_email` contains only an address that the user has confirmed.

Source: https://docs.x.com/x-api/users/user-lookup-me
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.twitter_oauth2 import TwitterOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

_API = "https://api.x.com"
_ME = f"{_API}/2/users/me?user.fields=id,name,username,confirmed_email,profile_image_url,url,created_at"


class _User(msgspec.Struct, frozen=True):
    id: str
    name: str | None = None
    username: str | None = None
    confirmed_email: str | None = None
    profile_image_url: str | None = None
    url: str | None = None
    created_at: str | None = None


class _Document(msgspec.Struct, frozen=True):
    data: _User


class X(OAuth2, TwitterOAuth2[Any]):
    AUTHORIZATION_URL = "https://x.com/i/oauth2/authorize"
    ACCESS_TOKEN_URL = f"{_API}/2/oauth2/token"
    default_scopes = ("users.email", "tweet.read", "users.read", "offline.access")
    requires_pkce = True

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url(_ME), _Document).data
        identity_data = profiles.identity_data(
            iss=_API,
            sub=user.id,
            name=user.name,
            full_name=user.name,
            preferred_username=user.username,
            user_name=user.username,
            picture=user.profile_image_url,
            avatar_url=user.profile_image_url,
            profile=f"https://x.com/{user.username}" if user.username else None,
            website=user.url,
            custom_claims={"created_at": user.created_at} if user.created_at else {},
        )
        return ProviderProfile(
            claims=identity_data, addresses=profiles.one_address(user.confirmed_email, verified=True)
        )
