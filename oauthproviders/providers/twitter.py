"""Twitter by OAuth 1.0a (RFC 5849), for applications with OAuth 1.0a keys.

`email` is verified: "if the email address is not verified, null will be returned"
(https://developer.x.com/en/docs/accounts-and-users/manage-account-settings/api-reference/get-account-verify_credentials).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import msgspec
from social_core.backends.twitter import TwitterOAuth
from social_core.exceptions import SocialAuthBaseException

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import backends, profiles
from oauthproviders.base.contract import AuthorizationRequest, InvalidProviderResponse, ProviderToken

_ME = "https://api.twitter.com/1.1/account/verify_credentials.json"
_PARAMETERS = {"include_email": "true", "include_entities": "false", "skip_status": "true"}


class _User(msgspec.Struct, frozen=True):
    id_str: str
    name: str | None = None
    screen_name: str | None = None
    profile_image_url_https: str | None = None
    email: str | None = None


class Twitter(backends.Backend, TwitterOAuth[Any]):
    is_oauth1 = True
    requires_pkce = False
    pending_state: UUID | None = None

    def get_or_create_state(self) -> str:
        return str(self.pending_state or "")

    def get_redirect_uri(self, state: str | None = None) -> str:
        """The callback with the state, because OAuth 1.0a has no state parameter."""
        uri = self.config.redirect_uri
        return f"{uri}{'&' if '?' in uri else '?'}{urlencode({'state': state})}" if state else uri

    def access_token_url(self) -> str:
        return self.with_base_url(super().access_token_url())

    def authorization_request(self, *, state: UUID, scopes: str, extra: Mapping[str, str]) -> AuthorizationRequest:
        self.pending_state = state
        self.REQUEST_TOKEN_URL = self.with_base_url(TwitterOAuth.REQUEST_TOKEN_URL)
        try:
            token = dict(parse_qsl(self.unauthorized_token()))  # type: ignore[no-untyped-call]  # by the library
        except (SocialAuthBaseException, UnicodeDecodeError):
            raise InvalidProviderResponse("the response contains no request token") from None
        profiles.check_storable(token)
        url = f"{self.with_base_url(self.authorization_url())}?{urlencode({'oauth_token': token['oauth_token']})}"
        return AuthorizationRequest(url=url, secret=token["oauth_token_secret"])

    def exchange(self, *, code: str, secret: str) -> ProviderToken:
        if not self.data.get("oauth_verifier"):
            raise InvalidProviderResponse("the callback has no verifier")
        request_token = {"oauth_token": self.data.get("oauth_token", ""), "oauth_token_secret": secret}
        try:
            token = self.access_token(request_token)
        except (SocialAuthBaseException, UnicodeDecodeError):
            raise InvalidProviderResponse("the response contains no access token") from None
        profiles.check_storable(token)
        return ProviderToken(access_token=token["oauth_token"], secret=token["oauth_token_secret"])

    def profile(self, token: ProviderToken) -> ProviderProfile:
        oauth_token = {"oauth_token": token.access_token, "oauth_token_secret": token.secret}
        user = backends.parse_document(
            self.oauth_request(oauth_token, self.with_base_url(_ME), params=_PARAMETERS).content, _User
        )
        identity_data = profiles.identity_data(
            iss=self.with_base_url(_ME),
            sub=user.id_str,
            name=user.name,
            full_name=user.name,
            preferred_username=user.screen_name,
            user_name=user.screen_name,
            picture=user.profile_image_url_https,
            avatar_url=user.profile_image_url_https,
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=True))
