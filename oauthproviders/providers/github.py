"""GitHub and GitHub Enterprise. `verified` states for each address whether it has been verified.

Source: https://docs.github.com/en/rest/users/emails
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.github import GithubOAuth2

from accounts.identities.external_identity import Address, ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken


class _User(msgspec.Struct, frozen=True):
    id: int
    login: str | None = None
    name: str | None = None
    avatar_url: str | None = None


class _Email(msgspec.Struct, frozen=True):
    email: str
    primary: bool = False
    verified: bool = False


class GitHub(OAuth2, GithubOAuth2[Any]):
    default_scopes = ("user:email",)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        api = f"{self.config.url}/api/v3" if self.config.url else "https://api.github.com"
        user = self.fetch_document(token, f"{api}/user", _User)
        emails = self.fetch_document(token, f"{api}/user/emails", list[_Email])
        identity_data = profiles.identity_data(
            iss=api,
            sub=user.id,
            name=user.name,
            full_name=user.name,
            preferred_username=user.login,
            user_name=user.login,
            avatar_url=user.avatar_url,
        )
        addresses = tuple(Address(email=e.email, verified=e.verified, primary=e.primary) for e in emails)
        return ProviderProfile(claims=identity_data, addresses=addresses)
