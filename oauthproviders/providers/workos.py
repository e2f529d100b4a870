"""WorkOS. The token response contains the profile.

The administrator of a connection can create users with any address. WorkOS compares it with the domains of the
organisation only if that is configured there (https://workos.com/docs/sso/domains). Therefore addresses are verified
only if the operator has listed the organisation or the connection in the settings; then no other one can sign in.
"""

from __future__ import annotations

from typing import Any

import msgspec
from social_core.backends.oauth import BaseOAuth2

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import InvalidProviderResponse, ProviderToken


class _Profile(msgspec.Struct, frozen=True):
    id: str
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    organization_id: str | None = None
    connection_id: str | None = None


class WorkOS(OAuth2, BaseOAuth2[Any]):
    name = "workos"
    AUTHORIZATION_URL = "https://api.workos.com/sso/authorize"
    ACCESS_TOKEN_URL = "https://api.workos.com/sso/token"
    ignores_scopes = True

    def profile(self, token: ProviderToken) -> ProviderProfile:
        document = profiles.convert(token.document.get("profile"), dict[str, Any])
        user = profiles.convert(document, _Profile)
        verified = _is_of_configured_source(user)
        name = profiles.full_name(user.first_name, user.last_name)
        identity_data = profiles.identity_data(
            iss="https://api.workos.com",
            sub=user.id,
            name=name,
            full_name=name,
            custom_claims=profiles.pick(document, "connection_id", "organization_id"),
        )
        return ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=verified))


def _is_of_configured_source(user: _Profile) -> bool:
    """True if the operator has configured the user's organisation or connection, False if none is configured.

    Raises InvalidProviderResponse for a user of another one.
    """
    federation = conf.current().federation
    if not federation.workos_organizations and not federation.workos_connections:
        return False
    if user.organization_id in federation.workos_organizations or user.connection_id in federation.workos_connections:
        return True
    raise InvalidProviderResponse("the organisation and the connection of the user are not configured")
