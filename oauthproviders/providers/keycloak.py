"""Keycloak. The URL of the provider is that of a realm.

Mappers of a realm may write `email_verified` as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from social_core.backends.keycloak import KeycloakOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

_STANDARD_CLAIMS = ("name", "sub", "email", "email_verified")


class _User(msgspec.Struct, frozen=True):
    sub: str
    name: str | None = None
    email: str | None = None
    email_verified: Any = None


class Keycloak(OAuth2, KeycloakOAuth2[Any]):
    default_scopes = ("profile", "email")

    @property
    def openid_issuer(self) -> str:
        return self.config.url

    def authorization_url(self) -> str:
        return f"{self.config.url}/protocol/openid-connect/auth"

    def access_token_url(self) -> str:
        return f"{self.config.url}/protocol/openid-connect/token"

    def profile(self, token: ProviderToken) -> ProviderProfile:
        document = self.fetch_document(token, f"{self.config.url}/protocol/openid-connect/userinfo", dict[str, Any])
        user = profiles.convert(document, _User)
        identity_data = profiles.identity_data(
            iss=self.config.url,
            sub=user.sub,
            name=user.name,
            full_name=user.name,
            custom_claims={key: value for key, value in document.items() if key not in _STANDARD_CLAIMS},
        )
        return ProviderProfile(
            claims=identity_data,
            addresses=profiles.one_address(user.email, verified=profiles.is_true(user.email_verified)),
        )


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    return profiles.generic({**token, "email_verified": profiles.is_true(token.get("email_verified"))})
