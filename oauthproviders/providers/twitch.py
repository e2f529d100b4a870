"""Twitch. `email` is the "user's verified email address" (https://dev.twitch.tv/docs/api/reference/#get-users)."""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.twitch import TwitchOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import InvalidProviderResponse, ProviderToken


class _User(msgspec.Struct, frozen=True):
    id: str
    login: str | None = None
    display_name: str | None = None
    profile_image_url: str | None = None
    email: str | None = None


class _Users(msgspec.Struct, frozen=True):
    data: list[dict[str, Any]]


class Twitch(OAuth2, TwitchOAuth2[Any]):
    default_scopes = ("user:read:email",)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        client = {"Client-Id": self.config.client_ids[0]}
        users = self.fetch_document(
            token, self.with_base_url("https://api.twitch.tv/helix/users"), _Users, headers=client
        ).data
        if not users:
            raise InvalidProviderResponse("the response contains no user")
        user = profiles.convert(users[0], _User)
        identity_data = profiles.identity_data(
            iss="https://api.twitch.tv",
            sub=user.id,
            name=user.login,
            full_name=user.login,
            nickname=user.display_name,
            slug=user.display_name,
            picture=user.profile_image_url,
            avatar_url=user.profile_image_url,
            custom_claims=profiles.pick(
                users[0], "broadcaster_type", "description", "type", "offline_image_url", "view_count"
            ),
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=True))
