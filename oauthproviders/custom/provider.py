"""A provider that an administrator has defined: plain OAuth 2.0, or OpenID Connect with discovery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from uuid import UUID

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf
from authsvc.security import encryption
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import Outset, Token
from oauthproviders.custom import claim_mapping
from oauthproviders.errors import Unsupported, Unusable
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc import issuers, openid_connect

PREFIX = "custom:"


class Custom(OAuth2):
    """Its settings are a row, read anew for every request."""

    row: CustomProvider

    @classmethod
    def of(cls, row: CustomProvider, *, data: Mapping[str, str]) -> Self:
        """Raises Unsupported when its secret cannot be read."""
        made = cls.make(config_of(row), data=data)
        made.row = row
        made.requires_pkce = row.pkce_enabled
        made.public_only = is_public_only()
        return made

    def begin(self, *, flow_id: UUID, scopes: str, extra: Mapping[str, str]) -> Outset:
        return super().begin(flow_id=flow_id, scopes=scopes, extra={**extra, **self.row.authorization_params})

    def scopes(self, asked: str) -> list[str]:
        return scopes_of(self.row.provider_type, asked.split() or self.row.scopes)

    def authorization_url(self) -> str:
        return self._needed(self.row.authorization_url if self._is_plain else self._discovered.authorization_endpoint)

    def access_token_url(self) -> str:
        return self._needed(self.row.token_url if self._is_plain else self._discovered.token_endpoint)

    def profile(self, token: Token) -> ProviderProfile:
        if not self._is_plain and token.id_token:
            said = openid_connect.verify(token.id_token, issuer=issuer_of(self.row), audiences=audiences_of(self.row))
            return of_id_token(self.row, said)
        address = self.row.userinfo_url if self._is_plain else self._discovered.userinfo_endpoint
        if not address:
            raise Unusable("there is neither an ID token nor an endpoint that tells who it was")
        document = self.read(token, address, dict[str, Any])
        return profiles.generic(_mapped(self.row, profiles.generic(document), document))

    def _needed(self, endpoint: str | None) -> str:
        if not endpoint:
            raise Unsupported(f"custom provider {self.row.identifier} is missing required endpoints")
        return endpoint

    @property
    def _is_plain(self) -> bool:
        return self.row.provider_type == ProviderType.OAUTH2

    @property
    def _discovered(self) -> openid_connect.Discovery:
        return openid_connect.discover(issuer_of(self.row))


def find(identifier: str, *, data: Mapping[str, str]) -> Custom:
    """The provider of that identifier for a request with these parameters. Raises Unsupported."""
    if not conf.current().custom_providers.enabled:
        raise Unsupported("custom OAuth providers are disabled")
    row = CustomProvider.objects.filter(identifier=identifier).first()
    if row is None:
        raise Unsupported(f"custom provider {identifier} not found")
    if not row.enabled:
        raise Unsupported(f"custom provider {identifier} is disabled")
    return Custom.of(row, data=data)


def config_of(row: CustomProvider) -> conf.Provider:
    """The settings of a provider of our own list, made from a row. Raises Unsupported."""
    base = conf.current().custom_providers.external_url or conf.current().api.external_url
    try:
        secret = encryption.decrypt(row.client_secret, bound_to=row.id)
    except encryption.DecryptionError:
        raise Unsupported(f"the secret of custom provider {row.identifier} cannot be read") from None
    return conf.Provider(
        enabled=row.enabled,
        client_ids=(row.client_id,),
        secret=conf.Secret(secret),
        redirect_uri=f"{base.removesuffix('/')}/callback",
        email_optional=row.email_optional,
        skip_nonce_check=row.skip_nonce_check,
    )


def issuer_of(row: CustomProvider) -> openid_connect.Issuer:
    """The issuer of an OpenID Connect provider."""
    return openid_connect.Issuer(
        name=row.issuer or "",
        url=row.discovery_url or "",
        public_only=is_public_only(),
        version=row.updated_at.isoformat(),
    )


def audiences_of(row: CustomProvider) -> list[str]:
    """For whom its ID tokens may be meant."""
    return [row.client_id, *row.acceptable_client_ids]


def of_id_token(row: CustomProvider, said: Mapping[str, Any]) -> ProviderProfile:
    """Who it is that a verified ID token is about. Raises Unusable."""
    profile = issuers.profile_of(said)
    return ProviderProfile(claims=_mapped(row, profile, said), addresses=profile.addresses)


def scopes_of(provider_type: str, scopes: list[str]) -> list[str]:
    """What is asked for; OpenID Connect is not spoken without `openid` (OpenID Connect Core §3.1.2.1)."""
    missing = provider_type == ProviderType.OIDC and "openid" not in scopes
    return ["openid", *scopes] if missing else list(scopes)


def is_public_only() -> bool:
    """Whether these providers are called at public addresses alone."""
    return not conf.current().custom_providers.private_networks_enabled


def _mapped(row: CustomProvider, profile: ProviderProfile, raw: Mapping[str, Any]) -> dict[str, Any]:
    return claim_mapping.apply(
        profile.claims, raw, allowlist=row.custom_claims_allowlist, mapping=row.attribute_mapping
    )
