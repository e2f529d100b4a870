"""Kakao: the browser flow and ID tokens. `is_email_valid` and `is_email_verified` state whether an address is verified.

Source: https://developers.kakao.com/docs/latest/en/kakaologin/rest-api#req-user-info
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from social_core.backends.kakao import KakaoOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

ID_TOKEN_ISSUER = "https://kauth.kakao.com"


class _Profile(msgspec.Struct, frozen=True):
    nickname: str | None = None
    profile_image_url: str | None = None


class _Account(msgspec.Struct, frozen=True):
    profile: _Profile = _Profile()
    email: str | None = None
    is_email_valid: bool = False
    is_email_verified: bool = False


class _User(msgspec.Struct, frozen=True):
    id: int
    kakao_account: _Account = _Account()


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    nickname: str | None = None
    picture: str | None = None
    email: str | None = None


class Kakao(OAuth2, KakaoOAuth2[Any]):
    default_scopes = ("account_email", "profile_image", "profile_nickname")
    client_in_body = True

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url("https://kapi.kakao.com/v2/user/me"), _User)
        account = user.kakao_account
        identity_data = profiles.identity_data(
            iss="https://kapi.kakao.com",
            sub=user.id,
            name=account.profile.nickname,
            full_name=account.profile.nickname,
            preferred_username=account.profile.nickname,
            user_name=account.profile.nickname,
            avatar_url=account.profile.profile_image_url,
        )
        verified = account.is_email_valid and account.is_email_verified
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(account.email, verified=verified))


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    user = profiles.convert(token, _Claims)
    identity_data = profiles.identity_data(
        iss=user.iss, sub=user.sub, name=user.nickname, preferred_username=user.nickname, picture=user.picture
    )
    # Only the profile document tells whether the address is valid and verified.
    return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=False))
