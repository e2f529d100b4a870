"""Snapchat: the browser flow and ID tokens, usually without an email address.

An address is unverified unless an ID token states `email_verified`: the documents of Login Kit mention no address
(https://developers.snap.com/snap-kit/login-kit/overview).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from social_core.backends.oauth import BaseOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

ID_TOKEN_ISSUER = "https://accounts.snapchat.com/accounts/oauth2/token"
_SCOPES = "https://auth.snapchat.com/oauth2/api/"
_QUERY = "{me { externalId displayName bitmoji { avatar id } email } }"


class _Bitmoji(msgspec.Struct, frozen=True):
    avatar: str | None = None


class _Me(msgspec.Struct, frozen=True, rename="camel"):
    external_id: str
    display_name: str | None = None
    bitmoji: _Bitmoji | None = None
    email: str | None = None


class _Data(msgspec.Struct, frozen=True):
    me: _Me


class _Document(msgspec.Struct, frozen=True):
    data: _Data


class Snapchat(OAuth2, BaseOAuth2[Any]):
    name = "snapchat"
    AUTHORIZATION_URL = "https://accounts.snapchat.com/accounts/oauth2/auth"
    ACCESS_TOKEN_URL = "https://accounts.snapchat.com/accounts/oauth2/token"
    default_scopes = (f"{_SCOPES}user.external_id", f"{_SCOPES}user.display_name", f"{_SCOPES}user.bitmoji.avatar")

    def profile(self, token: ProviderToken) -> ProviderProfile:
        address = self.with_base_url("https://kit.snapchat.com/v1/me")
        me = self.fetch_document(token, f"{address}?{urlencode({'query': _QUERY})}", _Document).data.me
        picture = me.bitmoji.avatar if me.bitmoji else None
        identity_data = profiles.identity_data(
            iss=ID_TOKEN_ISSUER,
            sub=me.external_id,
            name=me.display_name,
            full_name=me.display_name,
            slug=me.display_name,
            picture=picture,
            avatar_url=picture,
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(me.email, verified=False))
