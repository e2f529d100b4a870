"""Spotify. Its addresses are unverified: "there is no proof that it actually belongs to the user".

Source: https://developer.spotify.com/documentation/web-api/reference/get-current-users-profile
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.spotify import SpotifyOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

_API = "https://api.spotify.com/v1"


class _Image(msgspec.Struct, frozen=True):
    url: str | None = None
    height: int | None = None
    width: int | None = None

    @property
    def area(self) -> int:
        return (self.height or 0) * (self.width or 0)


class _User(msgspec.Struct, frozen=True):
    id: str
    display_name: str | None = None
    email: str | None = None
    images: list[_Image] = []


class Spotify(OAuth2, SpotifyOAuth2[Any]):
    default_scopes = ("user-read-email",)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, f"{self.config.url or _API}/me", _User)
        largest = max(user.images, key=lambda image: image.area, default=_Image())
        identity_data = profiles.identity_data(
            iss=_API,
            sub=user.id,
            name=user.display_name,
            full_name=user.display_name,
            picture=largest.url,
            avatar_url=largest.url,
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=False))
