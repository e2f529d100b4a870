"""LinkedIn by OpenID Connect. `email_verified` states whether LinkedIn has verified the address.

Source: https://learn.microsoft.com/en-us/linkedin/consumer/integrations/self-serve/sign-in-with-linkedin-v2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from social_core.backends.linkedin import LinkedinOpenIdConnect

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken
from oauthproviders.oidc import openid_connect
from oauthproviders.providers.linkedin import LinkedIn

ID_TOKEN_ISSUER = "https://www.linkedin.com/oauth"


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    given_name: str | None = None
    family_name: str | None = None
    locale: str | None = None
    picture: str | None = None
    email: str | None = None
    email_verified: bool | str = False


class LinkedInOpenId(OAuth2, LinkedinOpenIdConnect[Any]):
    AUTHORIZATION_URL = LinkedIn.AUTHORIZATION_URL
    ACCESS_TOKEN_URL = LinkedIn.ACCESS_TOKEN_URL
    default_scopes = ("openid", "email", "profile")
    issuer = ID_TOKEN_ISSUER

    def profile(self, token: ProviderToken) -> ProviderProfile:
        token_claims = openid_connect.verify(
            token.id_token, issuer=self.issuer, audiences=self.config.client_ids[:1], access_token=token.access_token
        )
        return profile_of(token_claims)


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    user = profiles.convert(token, _Claims)
    identity_data = profiles.identity_data(
        iss=user.iss,
        sub=user.sub,
        name=profiles.full_name(user.given_name, user.family_name),
        given_name=user.given_name,
        family_name=user.family_name,
        locale=user.locale,
        picture=user.picture,
    )
    # Some tokens contain this claim as a text.
    verified = user.email_verified in (True, "true")
    return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=verified))
