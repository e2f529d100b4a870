"""Google. `email_verified` states whether Google has verified the address.

Source: https://developers.google.com/identity/openid-connect/openid-connect#an-id-tokens-payload
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from social_core.backends.google import GoogleOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken
from oauthproviders.oidc import openid_connect

ID_TOKEN_ISSUER = "https://accounts.google.com"


class _User(msgspec.Struct, frozen=True):
    """The claims of an ID token and the keys of the older profile document, which are similar."""

    iss: str = ""
    sub: str = ""
    id: str = ""
    name: str | None = None
    picture: str | None = None
    email: str | None = None
    email_verified: bool = False
    verified_email: bool = False
    hd: str | None = None


class Google(OAuth2, GoogleOAuth2[Any]):
    default_scopes = ("email", "profile")
    issuer = ID_TOKEN_ISSUER
    user_info: ClassVar[str] = "https://www.googleapis.com/userinfo/v2/me"

    def authorization_url(self) -> str:
        return openid_connect.authorization_endpoint(self.issuer, known=self.AUTHORIZATION_URL)

    def access_token_url(self) -> str:
        return openid_connect.discover(self.issuer).token_endpoint

    def profile(self, token: ProviderToken) -> ProviderProfile:
        if not token.id_token:
            user = self.fetch_document(token, self.user_info, _User)
            return _profile(user, iss=self.user_info, sub=user.id)
        token_claims = openid_connect.verify(
            token.id_token, issuer=self.issuer, audiences=self.config.client_ids[:1], access_token=token.access_token
        )
        return profile_of(token_claims)


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    user = profiles.convert(token, _User)
    return _profile(user, iss=user.iss, sub=user.sub, custom_claims={"hd": user.hd} if user.hd else None)


def _profile(user: _User, *, iss: str, sub: str, custom_claims: Mapping[str, Any] | None = None) -> ProviderProfile:
    identity_data = profiles.identity_data(
        iss=iss,
        sub=sub,
        name=user.name,
        full_name=user.name,
        picture=user.picture,
        avatar_url=user.picture,
        custom_claims=custom_claims,
    )
    verified = user.email_verified or user.verified_email
    return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=verified))
