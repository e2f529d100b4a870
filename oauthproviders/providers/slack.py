"""Slack by OAuth 2.0, for applications without its OpenID Connect product.

The profile is that of OpenID Connect; `email_verified` states whether Slack has verified the address
(https://docs.slack.dev/reference/methods/openid.connect.userInfo).
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.slack import SlackOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

USER_INFO = "https://slack.com/api/openid.connect.userInfo"
_TEAM = "https://slack.com/team_id"


class User(msgspec.Struct, frozen=True):
    id: str = msgspec.field(name="https://slack.com/user_id")
    team: str | None = msgspec.field(name=_TEAM, default=None)
    email: str | None = None
    email_verified: bool = False
    name: str | None = None
    picture: str | None = None

    def identity_data(self) -> dict[str, Any]:
        return profiles.identity_data(
            iss="https://slack.com/api",
            sub=self.id,
            name=self.name,
            full_name=self.name,
            picture=self.picture,
            avatar_url=self.picture,
            custom_claims={_TEAM: self.team} if self.team else {},
        )


class Slack(OAuth2, SlackOAuth2[Any]):
    default_scopes = ("profile", "email", "openid")

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url(USER_INFO), User)
        return ProviderProfile(
            claims=user.identity_data(), addresses=profiles.one_address(user.email, verified=user.email_verified)
        )
