"""Zoom. `verified` states whether an account is verified: 1 or 0, for every type of sign-in.

Source: https://developers.zoom.us/docs/api/users/ (Get a user).
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.zoom import ZoomOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

_API = "https://api.zoom.us/v2"


class _User(msgspec.Struct, frozen=True):
    id: str
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    verified: int | bool = 0
    pic_url: str | None = None


class Zoom(OAuth2, ZoomOAuth2[Any]):
    ignores_scopes = True

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url(f"{_API}/users/me"), _User)
        name = profiles.full_name(user.first_name, user.last_name)
        identity_data = profiles.identity_data(
            iss=_API, sub=user.id, name=name, full_name=name, picture=user.pic_url, avatar_url=user.pic_url
        )
        addresses = profiles.one_address(user.email, verified=user.verified == 1)
        return ProviderProfile(claims=identity_data, addresses=addresses)
