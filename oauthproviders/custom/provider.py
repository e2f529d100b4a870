"""A custom provider: OAuth 2.0 with explicit endpoints, or OpenID Connect with discovery."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Self
from uuid import UUID

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf
from authsvc.security import encryption
from oauthproviders.base import profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import (
    AuthorizationRequest,
    InvalidProviderResponse,
    ProviderToken,
    ProviderUnavailable,
)
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc import openid_connect
from oauthproviders.providers import id_token_profiles

PREFIX = "custom:"


class CustomOAuthProvider(OAuth2):
    """A provider whose settings are a row, which is read for each request."""

    row: CustomProvider

    @classmethod
    def of(cls, row: CustomProvider, *, data: Mapping[str, str]) -> Self:
        """The provider of a row. Raises ProviderUnavailable when the secret cannot be decrypted."""
        provider = cls.make(config_of(row), data=data)
        provider.row = row
        provider.requires_pkce = row.pkce_enabled
        provider.public_only = is_public_only()
        return provider

    def authorization_request(self, *, state: UUID, scopes: str, extra: Mapping[str, str]) -> AuthorizationRequest:
        return super().authorization_request(
            state=state, scopes=scopes, extra={**extra, **self.row.authorization_params}
        )

    def scopes(self, requested: str) -> list[str]:
        return scopes_of(self.row.provider_type, requested.split() or self.row.scopes)

    def authorization_url(self) -> str:
        return self._require_endpoint(
            self.row.authorization_url if self._is_oauth2 else self._discovery.authorization_endpoint
        )

    def access_token_url(self) -> str:
        return self._require_endpoint(self.row.token_url if self._is_oauth2 else self._discovery.token_endpoint)

    def profile(self, token: ProviderToken) -> ProviderProfile:
        if not self._is_oauth2 and token.id_token:
            token_claims = openid_connect.verify(
                token.id_token, issuer=issuer_of(self.row), audiences=audiences_of(self.row)
            )
            return profile_of_id_token(self.row, token_claims)
        url = self.row.userinfo_url if self._is_oauth2 else self._discovery.userinfo_endpoint
        if not url:
            raise InvalidProviderResponse("there is neither an ID token nor a userinfo endpoint")
        document = self.fetch_document(token, url, dict[str, Any])
        return profiles.generic(_map_claims(self.row, profiles.generic(document), document))

    def _require_endpoint(self, endpoint: str | None) -> str:
        if not endpoint:
            raise ProviderUnavailable(f"custom provider {self.row.identifier} is missing required endpoints")
        return endpoint

    @property
    def _is_oauth2(self) -> bool:
        return self.row.provider_type == ProviderType.OAUTH2

    @property
    def _discovery(self) -> openid_connect.Discovery:
        return openid_connect.discover(issuer_of(self.row))


def find(identifier: str, *, data: Mapping[str, str]) -> CustomOAuthProvider:
    """The provider with this identifier for a request with these parameters. Raises ProviderUnavailable."""
    if not conf.current().custom_providers.enabled:
        raise ProviderUnavailable("custom OAuth providers are disabled")
    row = CustomProvider.objects.filter(identifier=identifier).first()
    if row is None:
        raise ProviderUnavailable(f"custom provider {identifier} not found")
    if not row.enabled:
        raise ProviderUnavailable(f"custom provider {identifier} is disabled")
    return CustomOAuthProvider.of(row, data=data)


def config_of(row: CustomProvider) -> conf.Provider:
    """The settings of a row in the form of built-in providers. Raises ProviderUnavailable."""
    try:
        secret = encryption.decrypt(row.client_secret, bound_to=row.id)
    except encryption.DecryptionError:
        raise ProviderUnavailable(f"the secret of custom provider {row.identifier} cannot be read") from None
    return conf.Provider(
        enabled=row.enabled,
        client_ids=(row.client_id,),
        secret=conf.Secret(secret),
        redirect_uri=callback_url(),
        email_optional=row.email_optional,
        skip_nonce_check=row.skip_nonce_check,
    )


def callback_url() -> str:
    """The redirect URI that is registered with custom providers."""
    base = conf.current().custom_providers.external_url or conf.current().api.external_url
    return f"{base.removesuffix('/')}/callback"


def issuer_of(row: CustomProvider) -> openid_connect.Issuer:
    """The issuer of an OpenID Connect provider."""
    return openid_connect.Issuer(
        name=row.issuer or "",
        url=row.discovery_url or "",
        public_only=is_public_only(),
        version=row.updated_at.isoformat(),
    )


def audiences_of(row: CustomProvider) -> list[str]:
    """The accepted audiences of its ID tokens."""
    return [row.client_id, *row.acceptable_client_ids]


def profile_of_id_token(row: CustomProvider, token_claims: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    profile = id_token_profiles.profile_of(token_claims)
    return ProviderProfile(claims=_map_claims(row, profile, token_claims), addresses=profile.addresses)


def scopes_of(provider_type: str, scopes: list[str]) -> list[str]:
    """The scopes to request; OpenID Connect requires `openid` (OpenID Connect Core §3.1.2.1)."""
    missing = provider_type == ProviderType.OIDC and "openid" not in scopes
    return ["openid", *scopes] if missing else list(scopes)


def is_public_only() -> bool:
    """True if custom providers may have public addresses only."""
    return not conf.current().custom_providers.private_networks_enabled


def map_claims(
    identity_data: Mapping[str, Any], raw: Mapping[str, Any], *, allowlist: Collection[str], mapping: Mapping[str, Any]
) -> dict[str, Any]:
    """Add the allowed keys of the `raw` document as custom claims, and apply the mapping.

    The mapping is target → source: a text is the name of another claim, any other value is a constant. A mapping with
    an invalid result is ignored. A mapped email address counts as verified only if the mapping sets `email_verified`.
    Raises InvalidProviderResponse if the source of `sub` is no usable id, because the original id could be the mapped
    one of another user.
    """
    picked = {key: raw[key] for key in allowlist if key in raw}
    result = dict(identity_data)
    if picked:
        result["custom_claims"] = {**result.get("custom_claims", {}), **picked}
    changes = {
        target: result[source] if isinstance(source, str) else source
        for target, source in mapping.items()
        if target in profiles.CLAIM_KEYS and (not isinstance(source, str) or source in result)
    }
    if "sub" in mapping:
        source = mapping["sub"]
        if not isinstance(source, str):
            return result  # a constant would make all users one account
        profiles.subject(result.get(source))
    try:
        changed = profiles.standard_claims({**result, **changes})
    except InvalidProviderResponse:
        return result
    if any(value not in (None, "") and target not in changed for target, value in changes.items()):
        return result
    if changed.get("email") != identity_data.get("email") and "email_verified" not in changes:
        # The claim belongs to the previous address.
        changed.pop("email_verified", None)
    return changed


def _map_claims(row: CustomProvider, profile: ProviderProfile, raw: Mapping[str, Any]) -> dict[str, Any]:
    return map_claims(profile.claims, raw, allowlist=row.custom_claims_allowlist, mapping=row.attribute_mapping)
