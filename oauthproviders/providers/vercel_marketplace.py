"""Vercel, for integrations of its marketplace.

`user_email` is the "user's verified email address" (https://vercel.com/docs/integrations/marketplace-api).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from social_core.backends.oauth import BaseOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken
from oauthproviders.oidc import openid_connect

ID_TOKEN_ISSUER = "https://marketplace.vercel.com"


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    global_user_id: str | None = None
    user_name: str | None = None
    user_avatar_url: str | None = None
    user_email: str | None = None


class VercelMarketplace(OAuth2, BaseOAuth2[Any]):
    name = "vercel_marketplace"
    AUTHORIZATION_URL = "https://api.vercel.com/oauth/v2/authorization"
    ACCESS_TOKEN_URL = "https://api.vercel.com/oauth/v2/accessToken"
    issuer = ID_TOKEN_ISSUER

    def profile(self, token: ProviderToken) -> ProviderProfile:
        token_claims = openid_connect.verify(
            token.id_token, issuer=self.issuer, audiences=self.config.client_ids[:1], access_token=token.access_token
        )
        return profile_of(token_claims)


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    user = profiles.convert(token, _Claims)
    # The subject belongs to one installation, the global id to the same user in all installations.
    global_user_id = (user.global_user_id or "").strip()
    sub = f"global_user_id:{profiles.subject(global_user_id)}" if global_user_id else user.sub
    identity_data = profiles.identity_data(iss=user.iss, sub=sub, name=user.user_name, picture=user.user_avatar_url)
    return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.user_email, verified=True))
