"""GitLab, gitlab.com or self-managed. `confirmed_at` states when the primary address was confirmed.

Source: https://docs.gitlab.com/api/users/
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.gitlab import GitLabOAuth2

from accounts.identities.external_identity import Address, ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken


class _User(msgspec.Struct, frozen=True):
    id: int
    name: str | None = None
    email: str | None = None
    avatar_url: str | None = None
    confirmed_at: str | None = None


class _Email(msgspec.Struct, frozen=True):
    email: str | None = None


class GitLab(OAuth2, GitLabOAuth2[Any]):
    default_scopes = ("read_user",)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        base = self.config.url or "https://gitlab.com"
        user = self.fetch_document(token, f"{base}/api/v4/user", _User)
        further = self.fetch_document(token, f"{base}/api/v4/user/emails", list[_Email])
        identity_data = profiles.identity_data(
            iss=base,
            sub=user.id,
            name=user.name,
            full_name=user.name,
            picture=user.avatar_url,
            avatar_url=user.avatar_url,
        )
        # The list does not tell whether additional addresses are confirmed.
        addresses = tuple(Address(email=email.email) for email in further if email.email)
        first = profiles.one_address(user.email, verified=bool(user.confirmed_at))
        return ProviderProfile(claims=identity_data, addresses=(*addresses, *first))
