"""LinkedIn by OAuth 2.0, for applications without its OpenID Connect product.

Its addresses are unverified: a handle is "the contact information that the authenticated member provided"
(https://learn.microsoft.com/en-us/linkedin/shared/integrations/people/primary-contact-api). `linkedin_oidc` states
whether the address is verified.
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.linkedin import LinkedinOAuth2

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderToken

_API = "https://api.linkedin.com"
_ME = f"{_API}/v2/me?projection=(id,firstName,lastName,profilePicture(displayImage~:playableStreams))"
_EMAIL = f"{_API}/v2/emailAddress?q=members&projection=(elements*(handle~))"


class _Locale(msgspec.Struct, frozen=True):
    country: str = ""
    language: str = ""


class _Name(msgspec.Struct, frozen=True, rename="camel"):
    localized: dict[str, str] = {}
    preferred_locale: _Locale = _Locale()

    @property
    def text(self) -> str:
        return self.localized.get(f"{self.preferred_locale.language}_{self.preferred_locale.country}", "")


class _Picture(msgspec.Struct, frozen=True):
    class Image(msgspec.Struct, frozen=True):
        class Size(msgspec.Struct, frozen=True):
            identifiers: list[dict[str, Any]] = []

        elements: list[Size] = []

    image: Image = msgspec.field(name="displayImage~", default=Image())

    @property
    def url(self) -> str:
        identifiers = self.image.elements[0].identifiers if self.image.elements else []
        address = identifiers[0].get("identifier") if identifiers else ""
        return address if isinstance(address, str) else ""


class _User(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    first_name: _Name = _Name()
    last_name: _Name = _Name()
    profile_picture: _Picture = _Picture()


class _Emails(msgspec.Struct, frozen=True):
    class Element(msgspec.Struct, frozen=True):
        class Handle(msgspec.Struct, frozen=True, rename="camel"):
            email_address: str = ""

        handle: Handle = msgspec.field(name="handle~", default=Handle())

    elements: list[Element] = []


class LinkedIn(OAuth2, LinkedinOAuth2[Any]):
    AUTHORIZATION_URL = f"{_API}/oauth/v2/authorization"
    ACCESS_TOKEN_URL = f"{_API}/oauth/v2/accessToken"
    default_scopes = ("r_emailaddress", "r_liteprofile")

    def profile(self, token: ProviderToken) -> ProviderProfile:
        user = self.fetch_document(token, self.with_base_url(_ME), _User)
        emails = self.fetch_document(token, self.with_base_url(_EMAIL), _Emails).elements
        name = profiles.full_name(user.first_name.text, user.last_name.text)
        picture = user.profile_picture.url
        identity_data = profiles.identity_data(
            iss=_API, sub=user.id, name=name, full_name=name, picture=picture, avatar_url=picture
        )
        email = emails[0].handle.email_address if emails else ""
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(email, verified=False))
