"""Twitter by OAuth 1.0a (RFC 5849), for applications that have keys of that kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import msgspec
from social_core.backends.twitter import TwitterOAuth
from social_core.exceptions import SocialAuthBaseException

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import backends, claims, profiles
from oauthproviders.base.contract import Outset, Token
from oauthproviders.errors import Unusable

_ME = "https://api.twitter.com/1.1/account/verify_credentials.json"
_WANTED = {"include_email": "true", "include_entities": "false", "skip_status": "true"}


class _User(msgspec.Struct, frozen=True):
    id_str: str
    name: str | None = None
    screen_name: str | None = None
    profile_image_url_https: str | None = None
    email: str | None = None


class Twitter(backends.Backend, TwitterOAuth[Any]):
    is_oauth1 = True
    requires_pkce = False
    flow_id: UUID | None = None

    def get_or_create_state(self) -> str:
        return str(self.flow_id or "")

    def get_redirect_uri(self, state: str | None = None) -> str:
        """The callback, which carries the state: OAuth 1.0a has no parameter for it."""
        uri = self.config.redirect_uri
        return f"{uri}{'&' if '?' in uri else '?'}{urlencode({'state': state})}" if state else uri

    def access_token_url(self) -> str:
        return self.place(super().access_token_url())

    def begin(self, *, flow_id: UUID, scopes: str, extra: Mapping[str, str]) -> Outset:
        self.flow_id = flow_id
        self.REQUEST_TOKEN_URL = self.place(TwitterOAuth.REQUEST_TOKEN_URL)
        try:
            token = dict(parse_qsl(self.unauthorized_token()))  # type: ignore[no-untyped-call]
        except (SocialAuthBaseException, UnicodeDecodeError):
            raise Unusable("the answer holds no request token") from None
        claims.checked(token)
        url = f"{self.place(self.authorization_url())}?{urlencode({'oauth_token': token['oauth_token']})}"
        return Outset(url=url, secret=token["oauth_token_secret"])

    def exchange(self, *, code: str, secret: str) -> Token:
        if not self.data.get("oauth_verifier"):
            raise Unusable("the browser brought no verifier")
        request_token = {"oauth_token": self.data.get("oauth_token", ""), "oauth_token_secret": secret}
        try:
            token = self.access_token(request_token)
        except (SocialAuthBaseException, UnicodeDecodeError):
            raise Unusable("the answer holds no access token") from None
        claims.checked(token)
        return Token(access_token=token["oauth_token"], secret=token["oauth_token_secret"])

    def profile(self, token: Token) -> ProviderProfile:
        signed_with = {"oauth_token": token.access_token, "oauth_token_secret": token.secret}
        user = backends.document(self.oauth_request(signed_with, self.place(_ME), params=_WANTED).content, _User)
        said = claims.identity_data(
            iss=self.place(_ME),
            sub=user.id_str,
            name=user.name,
            full_name=user.name,
            preferred_username=user.screen_name,
            user_name=user.screen_name,
            picture=user.profile_image_url_https,
            avatar_url=user.profile_image_url_https,
        )
        return ProviderProfile(claims=said, addresses=profiles.one_address(user.email, verified=True))
