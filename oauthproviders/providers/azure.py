"""Microsoft Entra ID: one tenant, or every tenant; also its external tenants for customers (CIAM)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from social_core.backends.azuread_tenant import AzureADV2TenantOAuth2

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf
from oauthproviders.base import claims, profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import Token
from oauthproviders.errors import Unusable
from oauthproviders.oidc import openid_connect

ID_TOKEN_ISSUER = re.compile(r"https://login[.]microsoftonline[.]com/[A-Za-z0-9.-]+/v2[.]0/?")
_OF_CUSTOMERS = re.compile(r"https://[a-z0-9-]+[.]ciamlogin[.]com/[A-Za-z0-9.-]+/v2[.]0/?")
# Those of tokens that an application got by itself, of the first version too.
_OF_ANYBODY = re.compile(r"https://(login[.]microsoftonline[.]com|sts[.]windows[.]net)(/[\w-][\w.-]*)+/?", re.ASCII)
_MICROSOFT = "https://login.microsoftonline.com"
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


@dataclass(frozen=True, slots=True)
class Authority:
    """Whom people sign in with: the tenant at `url`, or whichever one they belong to."""

    url: str

    @property
    def is_of_one_tenant(self) -> bool:
        return self._tenant.lower() not in _MANY_TENANTS

    def issues(self, issuer: str) -> bool:
        """Whether it answers a browser with tokens of this issuer."""
        if self.is_of_one_tenant:
            return issuer == f"{self.url}/v2.0"
        return re.fullmatch(rf"{re.escape(self._origin)}/[A-Za-z0-9.-]+/v2[.]0/?", issuer) is not None

    def issues_elsewhere(self, issuer: str) -> bool:
        """Whether an application may have got a token of this issuer from it without us."""
        if not self.is_of_one_tenant:
            return _OF_ANYBODY.fullmatch(issuer) is not None
        own = {f"{self.url}/v2.0"}
        if self._origin == _MICROSOFT:
            own.add(f"https://sts.windows.net/{self._tenant}")
        return issuer.removesuffix("/") in own

    def profile_of(self, token: Mapping[str, Any]) -> ProviderProfile:
        """What a token of its own says. Raises Unusable."""
        if ID_TOKEN_ISSUER.fullmatch(str(token.get("iss"))):
            return profile_of(token, is_of_own_tenant=self.is_of_one_tenant)
        if not self.is_of_one_tenant:
            # Whoever runs a tenant can have its tokens say this.
            token = {**token, "email_verified": _is_domain_verified(token, otherwise=False)}
        return profiles.generic(token)

    @property
    def _origin(self) -> str:
        return self.url.rpartition("/")[0]

    @property
    def _tenant(self) -> str:
        return self.url.rpartition("/")[2]


def authority_of(config: conf.Provider) -> Authority:
    return Authority(config.url or f"{_MICROSOFT}/common")


class Azure(OAuth2, AzureADV2TenantOAuth2[Any]):
    default_scopes = ("openid",)

    @property
    def authority(self) -> str:
        return authority_of(self.config).url

    def authorization_url(self) -> str:
        return f"{self.authority}/oauth2/v2.0/authorize"

    def access_token_url(self) -> str:
        return f"{self.authority}/oauth2/v2.0/token"

    def profile(self, token: Token) -> ProviderProfile:
        authority, issuer = authority_of(self.config), openid_connect.claimed_issuer(token.id_token)
        if not authority.issues(issuer):
            raise Unusable("the ID token is of another issuer")
        said = openid_connect.verify(
            token.id_token, issuer=issuer, audiences=self.config.client_ids[:1], access_token=token.access_token
        )
        if _OF_CUSTOMERS.fullmatch(issuer):
            return profiles.generic(said)
        return profile_of(said, is_of_own_tenant=authority.is_of_one_tenant)


def profile_of(token: Mapping[str, Any], *, is_of_own_tenant: bool) -> ProviderProfile:
    """What an ID token says; `is_of_own_tenant` is for one whose issuer an operator has named. Raises Unusable."""
    user = profiles.shaped(token, _Claims)
    said = claims.identity_data(
        iss=user.iss,
        sub=user.sub,
        full_name=user.name,
        preferred_username=user.preferred_username,
        custom_claims={key: value for key, value in token.items() if key not in _TOLD_ELSEWHERE},
    )
    verified = _is_domain_verified(token, otherwise=is_of_own_tenant)
    return ProviderProfile(claims=said, addresses=profiles.one_address(user.email, verified=verified))


def _is_domain_verified(token: Mapping[str, Any], *, otherwise: bool) -> bool:
    """Whether Microsoft knows the owner of the address's domain; `otherwise` when it says nothing of that.

    The address alone is what somebody has written into a directory: in one of their own, anybody's.
    """
    told = token.get("xms_edov", otherwise)
    return told is True or told in ("1", "true")
