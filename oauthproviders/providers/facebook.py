"""Facebook: the browser flow, and the ID tokens of Limited Login.

Its addresses are unverified. Facebook calls `email` the "primary email address listed on their profile" and returns
only a valid one, but does not state that it has been verified (https://developers.facebook.com/docs/graph-api/reference/user/).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec
from social_core.backends.facebook import FacebookOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

ID_TOKEN_ISSUER = "https://www.facebook.com"


class _Image(msgspec.Struct, frozen=True):
    url: str | None = None


class _Picture(msgspec.Struct, frozen=True):
    data: _Image | None = None


class _User(msgspec.Struct, frozen=True):
    id: str
    name: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    picture: _Picture | None = None


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    name: str | None = None
    picture: str | None = None
    email: str | None = None


class Facebook(OAuth2, FacebookOAuth2[Any]):  # type: ignore[misc]  # its own `request` is not used
    AUTHORIZATION_URL = "https://www.facebook.com/dialog/oauth"
    ACCESS_TOKEN_URL = "https://graph.facebook.com/oauth/access_token"
    default_scopes = ("email",)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        address = self.with_base_url("https://graph.facebook.com/me?fields=email,first_name,last_name,name,picture")
        secret = self.config.secret.reveal().encode()
        proof = hmac.new(secret, token.access_token.encode(), hashlib.sha256).hexdigest()
        user = self.fetch_document(token, f"{address}&appsecret_proof={proof}", _User)
        name = profiles.full_name(user.first_name, user.last_name)
        picture = user.picture.data.url if user.picture and user.picture.data else None
        identity_data = profiles.identity_data(
            iss=address,
            sub=user.id,
            name=name,
            full_name=name,
            nickname=user.name,
            slug=user.name,
            picture=picture,
            avatar_url=picture,
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=False))


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    user = profiles.convert(token, _Claims)
    identity_data = profiles.identity_data(iss=user.iss, sub=user.sub, name=user.name, picture=user.picture)
    return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=False))
