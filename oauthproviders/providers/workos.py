"""WorkOS. The token response contains the profile."""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.oauth import BaseOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import Token


class _Profile(msgspec.Struct, frozen=True):
    id: str
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None


class WorkOS(OAuth2, BaseOAuth2[Any]):
    name = "workos"
    AUTHORIZATION_URL = "https://api.workos.com/sso/authorize"
    ACCESS_TOKEN_URL = "https://api.workos.com/sso/token"
    ignores_scopes = True

    def profile(self, token: Token) -> ProviderProfile:
        document = profiles.convert(token.document.get("profile"), dict[str, Any])
        user = profiles.convert(document, _Profile)
        name = profiles.full_name(user.first_name, user.last_name)
        identity_data = profiles.identity_data(
            iss="https://api.workos.com",
            sub=user.id,
            name=name,
            full_name=name,
            custom_claims=profiles.pick(document, "connection_id", "organization_id"),
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=True))
