"""Microsoft Entra ID: a single tenant, all tenants, or external tenants for customers (CIAM).

The key of an identity contains the tenant, because `sub` identifies a user of an application within a tenant
(https://learn.microsoft.com/en-us/entra/identity-platform/id-token-claims-reference). `email` can be set by the
administrator of the tenant; `xms_edov` states whether Microsoft has verified its domain
(https://learn.microsoft.com/en-us/entra/identity-platform/migrate-off-email-claim-authorization). Without the claim the
address is unverified, unless the operator has configured the tenant.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from social_core.backends.azuread_tenant import AzureADV2TenantOAuth2

from accounts.identities.external_identity import ProviderProfile, SubjectScope
from authsvc import conf
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import InvalidProviderResponse, ProviderToken
from oauthproviders.oidc import openid_connect

ID_TOKEN_ISSUER = re.compile(r"https://login[.]microsoftonline[.]com/[A-Za-z0-9.-]+/v2[.]0/?")
_CIAM_ISSUER = re.compile(r"https://[a-z0-9-]+[.]ciamlogin[.]com/[A-Za-z0-9.-]+/v2[.]0/?")
# Issuers of tokens that an application obtained itself, including version 1 tokens.
_ANY_ISSUER = re.compile(r"https://(login[.]microsoftonline[.]com|sts[.]windows[.]net)(/[\w-][\w.-]*)+/?", re.ASCII)
_TENANT = re.compile(r"https?://[^/]+/([^/]+)(/.*)?")
_MICROSOFT = "https://login.microsoftonline.com"
_MULTI_TENANT = frozenset({"common", "organizations", "consumers"})
_STANDARD_CLAIMS = frozenset(
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
    """The authority at `url`: a single tenant, or the tenant of each user."""

    url: str

    @property
    def is_single_tenant(self) -> bool:
        return self._tenant.lower() not in _MULTI_TENANT

    def issues(self, issuer: str) -> bool:
        """True if its authorization flow returns tokens of this issuer."""
        if self.is_single_tenant:
            return issuer == f"{self.url}/v2.0"
        return re.fullmatch(rf"{re.escape(self._origin)}/[A-Za-z0-9.-]+/v2[.]0/?", issuer) is not None

    def issues_to_applications(self, issuer: str) -> bool:
        """True if an application may have obtained a token of this issuer itself."""
        if not self.is_single_tenant:
            return _ANY_ISSUER.fullmatch(issuer) is not None
        issuers = {f"{self.url}/v2.0"}
        if self._origin == _MICROSOFT:
            issuers.add(f"https://sts.windows.net/{self._tenant}")
        return issuer.removesuffix("/") in issuers

    def profile_of(self, token: Mapping[str, Any]) -> ProviderProfile:
        """The profile of a verified ID token of this authority. Raises InvalidProviderResponse."""
        if ID_TOKEN_ISSUER.fullmatch(str(token.get("iss"))):
            return profile_of(token, is_of_own_tenant=self.is_single_tenant)
        if not self.is_single_tenant:
            # The administrator of any tenant can set this claim.
            token = {**token, "email_verified": _is_domain_verified(token, default=False)}
        return _scoped(profiles.generic(token))

    @property
    def _origin(self) -> str:
        return self.url.rpartition("/")[0]

    @property
    def _tenant(self) -> str:
        return self.url.rpartition("/")[2]


def authority_of(config: conf.Provider) -> Authority:
    return Authority(config.url or f"{_MICROSOFT}/common")


class Azure(OAuth2, AzureADV2TenantOAuth2[Any]):
    default_scopes = ("openid", "email", "profile")

    @property
    def authority(self) -> str:
        return authority_of(self.config).url

    @property
    def openid_issuer(self) -> str:
        authority = authority_of(self.config)
        # The document of several tenants has a placeholder as issuer.
        return f"{authority.url}/v2.0" if authority.is_single_tenant else ""

    def authorization_url(self) -> str:
        return f"{self.authority}/oauth2/v2.0/authorize"

    def access_token_url(self) -> str:
        return f"{self.authority}/oauth2/v2.0/token"

    def profile(self, token: ProviderToken) -> ProviderProfile:
        authority, issuer = authority_of(self.config), openid_connect.claimed_issuer(token.id_token)
        if not authority.issues(issuer):
            raise InvalidProviderResponse("the ID token has another issuer")
        token_claims = openid_connect.verify(
            token.id_token, issuer=issuer, audiences=self.config.client_ids[:1], access_token=token.access_token
        )
        if _CIAM_ISSUER.fullmatch(issuer):
            return _scoped(profiles.generic(token_claims))
        return profile_of(token_claims, is_of_own_tenant=authority.is_single_tenant)


def profile_of(token: Mapping[str, Any], *, is_of_own_tenant: bool) -> ProviderProfile:
    """The profile of an ID token; `is_of_own_tenant`: an operator has configured its issuer.

    Raises InvalidProviderResponse.
    """
    user = profiles.convert(token, _Claims)
    identity_data = profiles.identity_data(
        iss=user.iss,
        sub=user.sub,
        full_name=user.name,
        preferred_username=user.preferred_username,
        custom_claims={key: value for key, value in token.items() if key not in _STANDARD_CLAIMS},
    )
    verified = _is_domain_verified(token, default=is_of_own_tenant)
    profile = ProviderProfile(claims=identity_data, addresses=profiles.one_address(user.email, verified=verified))
    return _scoped(profile)


def _scoped(profile: ProviderProfile) -> ProviderProfile:
    """The profile with its tenant in the key of the identity. Raises InvalidProviderResponse for an issuer without."""
    tenant = _tenant_of(profile.claims)
    if not tenant:
        raise InvalidProviderResponse("the issuer of the ID token contains no tenant")
    return dataclasses.replace(profile, scope=SubjectScope(tenant=tenant, tenant_of=_tenant_of))


def _tenant_of(identity_data: Mapping[str, Any]) -> str:
    """The tenant in the issuer, which is the same for tokens of version 1 and 2."""
    match = _TENANT.fullmatch(str(identity_data.get("iss", "")))
    return match[1].lower() if match else ""


def _is_domain_verified(token: Mapping[str, Any], *, default: bool) -> bool:
    """True if Microsoft has verified the domain of the address; `default` without the claim.

    The address alone is not verified: the administrator of a tenant can enter any address.
    """
    claim = token.get("xms_edov", default)
    return claim is True or claim in ("1", "true")
