"""Notion, for its public integrations.

Its addresses are unverified: `person.email` is the "email address of person", without a statement about verification
(https://developers.notion.com/reference/user).
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.oauth import BaseOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

_VERSION = {"Notion-Version": "2021-08-16"}


class _Person(msgspec.Struct, frozen=True):
    email: str | None = None


class _User(msgspec.Struct, frozen=True):
    id: str
    name: str | None = None
    avatar_url: str | None = None
    person: _Person = _Person()


class _Owner(msgspec.Struct, frozen=True):
    user: _User


class _Bot(msgspec.Struct, frozen=True):
    owner: _Owner


class _Me(msgspec.Struct, frozen=True):
    """The token belongs to a bot; the signed-in user is its owner."""

    bot: _Bot


class Notion(OAuth2, BaseOAuth2[Any]):
    name = "notion"
    AUTHORIZATION_URL = "https://api.notion.com/v1/oauth/authorize"
    ACCESS_TOKEN_URL = "https://api.notion.com/v1/oauth/token"
    ignores_scopes = True

    def profile(self, token: ProviderToken) -> ProviderProfile:
        me = self.fetch_document(token, self.with_base_url("https://api.notion.com/v1/users/me"), _Me, headers=_VERSION)
        user = me.bot.owner.user
        identity_data = profiles.identity_data(
            iss="https://api.notion.com",
            sub=user.id,
            name=user.name,
            full_name=user.name,
            picture=user.avatar_url,
            avatar_url=user.avatar_url,
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.person.email, verified=False))
