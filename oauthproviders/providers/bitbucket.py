"""Bitbucket Cloud. `is_confirmed` states for each address whether it has been confirmed.

Source: https://developer.atlassian.com/cloud/bitbucket/rest/api-group-users/
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.bitbucket import BitbucketOAuth2

from accounts.identities.external_identity import Address, ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

_API = "https://api.bitbucket.org/2.0"


class _Link(msgspec.Struct, frozen=True):
    href: str | None = None


class _User(msgspec.Struct, frozen=True):
    uuid: str
    display_name: str | None = None
    avatar: _Link | None = None


class _Email(msgspec.Struct, frozen=True):
    email: str | None = None
    is_primary: bool = False
    is_confirmed: bool = False


class _Emails(msgspec.Struct, frozen=True):
    values: list[_Email]


class Bitbucket(OAuth2, BitbucketOAuth2[Any]):
    default_scopes = ("account", "email")
    ignores_scopes = True

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url(f"{_API}/user"), _User)
        emails = self.fetch_document(token, self.with_base_url(f"{_API}/user/emails"), _Emails).values
        picture = user.avatar.href if user.avatar else None
        identity_data = profiles.identity_data(
            iss=_API,
            sub=user.uuid,
            name=user.display_name,
            full_name=user.display_name,
            picture=picture,
            avatar_url=picture,
        )
        addresses = tuple(
            Address(email=email.email, verified=email.is_confirmed, primary=email.is_primary)
            for email in emails
            if email.email
        )
        return ProviderProfile(claims=identity_data, addresses=addresses)
