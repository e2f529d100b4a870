"""Slack by OpenID Connect. `email_verified` states whether Slack has verified the address.

Source: https://docs.slack.dev/reference/methods/openid.connect.token
"""

from __future__ import annotations

from typing import Any

from social_core.backends.oauth import BaseOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken
from oauthproviders.providers import slack


class SlackOpenId(OAuth2, BaseOAuth2[Any]):
    name = "slack_oidc"
    AUTHORIZATION_URL = "https://slack.com/openid/connect/authorize"
    ACCESS_TOKEN_URL = "https://slack.com/api/openid.connect.token"
    default_scopes = ("profile", "email", "openid")

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url(slack.USER_INFO), slack.User)
        return ProviderProfile(
            claims=user.identity_data(), addresses=profiles.one_address(user.email, verified=user.email_verified)
        )
