"""Discord. `verified` states whether the email of the account has been verified.

Source: https://discord.com/developers/docs/resources/user#user-object
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.discord import DiscordOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import InvalidProviderResponse, ProviderToken

_API = "https://discord.com/api"
_IMAGES = "https://cdn.discordapp.com"
_STOCK_AVATARS = 5


class _User(msgspec.Struct, frozen=True):
    id: str
    username: str | None = None
    global_name: str | None = None
    discriminator: str | None = None
    avatar: str | None = None
    email: str | None = None
    verified: bool | None = None


class Discord(OAuth2, DiscordOAuth2[Any]):
    default_scopes = ("email", "identify")

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url(f"{_API}/users/@me"), _User)
        avatar = _avatar(user)
        identity_data = profiles.identity_data(
            iss=self.with_base_url(_API),
            sub=user.id,
            name=f"{user.username or ''}#{user.discriminator or ''}",
            full_name=user.username,
            picture=avatar,
            avatar_url=avatar,
            custom_claims={"global_name": user.global_name or ""},
        )
        return ProviderProfile(
            claims=identity_data, addresses=profiles.one_address(user.email, verified=user.verified is True)
        )


def _avatar(user: _User) -> str:
    if user.avatar:
        # This prefix marks an animated image.
        ending = "gif" if user.avatar.startswith("a_") else "png"
        return f"{_IMAGES}/avatars/{user.id}/{user.avatar}.{ending}"
    number = user.discriminator or ""
    if not (number.isascii() and number.isdigit()):
        raise InvalidProviderResponse("the discriminator is no number")
    return f"{_IMAGES}/embed/avatars/{int(number[-4:]) % _STOCK_AVATARS}.png"
