"""Microsoft Entra ID: one tenant, or every tenant; also its external tenants for customers (CIAM)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from social_core.backends.azuread_tenant import AzureADV2TenantOAuth2

from accounts.external import ProviderProfile
from oauthproviders import claims, oidc, profiles
from oauthproviders.backends import OAuth2
from oauthproviders.contract import Token
from oauthproviders.errors import Unusable

ID_TOKEN_ISSUER = re.compile(r"https://login[.]microsoftonline[.]com/[A-Za-z0-9.-]+/v2[.]0/?")
_OF_CUSTOMERS = re.compile(r"https://[a-z0-9-]+[.]ciamlogin[.]com/[A-Za-z0-9.-]+/v2[.]0/?")
_MANY_TENANTS = frozenset({"common", "organizations", "consumers"})
_TOLD_ELSEWHERE = frozenset(
    "aud iss iat nbf exp c_hash at_hash aio nonce rh uti jti ver sub name preferred_username".split()
)


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    name: str | None = None
    preferred_username: str | None = None
    email: str | None = None


class Azure(OAuth2, AzureADV2TenantOAuth2[Any]):
    default_scopes = ("openid",)

    @property
    def authority(self) -> str:
        return self.config.url or "https://login.microsoftonline.com/common"

    def authorization_url(self) -> str:
        return f"{self.authority}/oauth2/v2.0/authorize"

    def access_token_url(self) -> str:
        return f"{self.authority}/oauth2/v2.0/token"

    def profile(self, token: Token) -> ProviderProfile:
        issuer = oidc.claimed_issuer(token.id_token)
        if not self._is_ours(issuer):
            raise Unusable("the ID token is of another issuer")
        said = oidc.verify(
            token.id_token, issuer=issuer, audiences=self.config.client_ids[:1], access_token=token.access_token
        )
        return profiles.generic(said) if _OF_CUSTOMERS.fullmatch(issuer) else profile_of(said)

    def _is_ours(self, issuer: str) -> bool:
        origin, _, tenant = self.authority.rpartition("/")
        if tenant not in _MANY_TENANTS:
            return issuer == f"{self.authority}/v2.0"
        return re.fullmatch(rf"{re.escape(origin)}/[A-Za-z0-9.-]+/v2[.]0/?", issuer) is not None


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """What an ID token says. Raises Unusable."""
    user = profiles.shaped(token, _Claims)
    said = claims.identity_data(
        iss=user.iss,
        sub=user.sub,
        full_name=user.name,
        preferred_username=user.preferred_username,
        custom_claims={key: value for key, value in token.items() if key not in _TOLD_ELSEWHERE},
    )
    # The claim says whether the owner of the address's domain is known; without it nothing tells the two apart.
    domain_is_verified = token.get("xms_edov", True)
    verified = domain_is_verified is True or domain_is_verified in ("1", "true")
    return ProviderProfile(claims=said, addresses=profiles.one_address(user.email, verified=verified))
