"""Issuers whose ID tokens are accepted without an authorization flow, with the accepted audiences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf
from authsvc.errors import ValidationFailed
from oauthproviders.base.contract import InvalidProviderResponse
from oauthproviders.custom import provider as custom
from oauthproviders.flow.errors import ProviderDisabled
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc import openid_connect
from oauthproviders.providers import (
    apple,
    azure,
    facebook,
    google,
    id_token_profiles,
    kakao,
    keycloak,
    snapchat,
    vercel_marketplace,
)

_FIXED_ISSUERS: Mapping[str, str] = {
    "google": google.ID_TOKEN_ISSUER,
    "facebook": facebook.ID_TOKEN_ISSUER,
    "kakao": kakao.ID_TOKEN_ISSUER,
    "vercel_marketplace": vercel_marketplace.ID_TOKEN_ISSUER,
    "snapchat": snapchat.ID_TOKEN_ISSUER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTokenCredential:
    """An ID token and the parameters sent with it; `""` for absent ones."""

    id_token: str = field(repr=False)
    provider: str = ""
    client_id: str = ""
    issuer: str = ""
    access_token: str = field(default="", repr=False)
    nonce: str = field(default="", repr=False)
    link_identity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedIssuer:
    """An issuer whose ID tokens are accepted."""

    provider: str
    """The provider name of its identities."""
    issuer: openid_connect.Issuer
    audiences: tuple[str, ...]
    checks_nonce: bool
    email_optional: bool
    profile_of: Callable[[Mapping[str, Any]], ProviderProfile] = id_token_profiles.profile_of


def find_trusted_issuer(credential: IdTokenCredential) -> TrustedIssuer:
    """The issuer that verifies a token. Raises ValidationFailed, ProviderDisabled."""
    trusted = _find(credential)
    if credential.provider and credential.issuer and credential.issuer.rstrip("/") != trusted.issuer.name.rstrip("/"):
        raise ValidationFailed("Provided issuer does not match ID token issuer")
    return trusted


def _find(credential: IdTokenCredential) -> TrustedIssuer:
    """The issuer by the name of its provider or by its URL; built-in providers come first."""
    provider, issuer, federation = credential.provider, credential.issuer, conf.current().federation
    if provider == "apple" or issuer in apple.ID_TOKEN_ISSUERS:
        detected = _detected_issuer(
            credential, "Apple", "an Apple", is_allowed=lambda name: name in apple.ID_TOKEN_ISSUERS
        )
        return _built_in("apple", detected, extra_audience=federation.ios_bundle_id)
    if provider == "google" or issuer == _FIXED_ISSUERS["google"]:
        return _built_in("google", _FIXED_ISSUERS["google"])
    if provider == "azure" or azure.ID_TOKEN_ISSUER.fullmatch(issuer):
        authority = azure.authority_of(conf.current().providers["azure"])
        detected = _detected_issuer(credential, "Azure", "an Azure", is_allowed=authority.issues_to_applications)
        return _built_in("azure", detected, profile_of=authority.profile_of)
    config = conf.current().providers["keycloak"]
    if provider == "keycloak" or (config.enabled and config.url and issuer == config.url):
        return _built_in("keycloak", config.url, profile_of=keycloak.profile_of)
    for name, fixed_issuer in _FIXED_ISSUERS.items():
        if provider == name or issuer == fixed_issuer:
            return _built_in(name, fixed_issuer)
    if provider.startswith(custom.PREFIX):
        return _custom(provider)
    if issuer and issuer in federation.id_token_issuers:
        # The client selects one of the configured audiences. Otherwise it could present the token of another
        # application, whose operator would be able to sign in as that application's users.
        configured = federation.audiences_of(issuer)
        return TrustedIssuer(
            provider=issuer,
            issuer=openid_connect.Issuer(name=issuer),
            audiences=tuple(audience for audience in configured if audience == credential.client_id),
            checks_nonce=True,
            email_optional=False,
        )
    raise ValidationFailed(f'Custom OIDC provider "{provider}" not allowed')


def _detected_issuer(
    credential: IdTokenCredential, provider: str, a_provider: str, *, is_allowed: Callable[[str], bool]
) -> str:
    try:
        issuer = openid_connect.claimed_issuer(credential.id_token)
    except InvalidProviderResponse:
        raise ValidationFailed(f"Unable to detect issuer in ID token for {provider} provider") from None
    if not is_allowed(issuer):
        raise ValidationFailed(f"Detected ID token issuer is not {a_provider} ID token issuer")
    return issuer


def _built_in(
    name: str,
    issuer: str,
    *,
    extra_audience: str = "",
    profile_of: Callable[[Mapping[str, Any]], ProviderProfile] = id_token_profiles.profile_of,
) -> TrustedIssuer:
    """The issuer of a built-in provider. Raises ProviderDisabled."""
    config = conf.current().providers[name]
    if not config.enabled or not issuer:
        raise ProviderDisabled(f'Provider (issuer "{issuer}") is not enabled')
    return TrustedIssuer(
        provider=name,
        issuer=openid_connect.Issuer(name=issuer),
        audiences=_without_empty(*config.client_ids, extra_audience),
        # The nonce in tokens of Facebook's Limited Login does not come from the client.
        checks_nonce=not config.skip_nonce_check and name != "facebook",
        email_optional=config.email_optional,
        profile_of=profile_of,
    )


def _custom(identifier: str) -> TrustedIssuer:
    if not conf.current().custom_providers.enabled:
        raise ValidationFailed("Custom OAuth providers are disabled")
    row = CustomProvider.objects.filter(identifier=identifier).first()
    if row is None:
        raise ValidationFailed(f'Custom provider "{identifier}" not found')
    if not row.enabled:
        raise ProviderDisabled(f'Custom provider "{identifier}" is disabled')
    if row.provider_type != ProviderType.OIDC:
        raise ValidationFailed(f'Provider "{identifier}" is not an OIDC provider')
    return TrustedIssuer(
        provider=identifier,
        issuer=custom.issuer_of(row),
        audiences=_without_empty(*custom.audiences_of(row)),
        checks_nonce=not row.skip_nonce_check,
        email_optional=row.email_optional,
        profile_of=lambda token_claims: custom.profile_of_id_token(row, token_claims),
    )


def _without_empty(*audiences: str) -> tuple[str, ...]:
    return tuple(audience for audience in audiences if audience)
