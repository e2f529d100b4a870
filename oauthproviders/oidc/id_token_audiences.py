"""Whose ID tokens are taken by themselves, without a visit to the provider: for which client, and as whose identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from accounts.identities.external_identity import ProviderProfile
from authsvc import conf
from authsvc.errors import ValidationFailed
from oauthproviders.custom import provider as custom
from oauthproviders.errors import ProviderDisabled, Unusable
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc import issuers, openid_connect
from oauthproviders.providers import apple, azure, facebook, google, kakao, snapchat, vercel_marketplace

_FIXED: Mapping[str, str] = {
    "google": google.ID_TOKEN_ISSUER,
    "facebook": facebook.ID_TOKEN_ISSUER,
    "kakao": kakao.ID_TOKEN_ISSUER,
    "vercel_marketplace": vercel_marketplace.ID_TOKEN_ISSUER,
    "snapchat": snapchat.ID_TOKEN_ISSUER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Whom somebody with an ID token says it is from; `""` for what they do not say."""

    id_token: str = field(repr=False)
    provider: str
    client_id: str
    issuer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """An issuer whose tokens are taken."""

    provider: str
    """Under which name its identities are kept."""
    issuer: openid_connect.Issuer
    audiences: tuple[str, ...]
    checks_nonce: bool
    email_optional: bool
    profile_of: Callable[[Mapping[str, Any]], ProviderProfile] = issuers.profile_of


def choose(claim: Claim) -> Trusted:
    """The issuer that a token is to be checked against. Raises ValidationFailed, ProviderDisabled."""
    trusted = _choose(claim)
    if claim.provider and claim.issuer and claim.issuer.rstrip("/") != trusted.issuer.name.rstrip("/"):
        raise ValidationFailed("Provided issuer does not match ID token issuer")
    return trusted


def _choose(claim: Claim) -> Trusted:
    provider, issuer, federation = claim.provider, claim.issuer, conf.current().federation
    if provider == "apple" or issuer in apple.ID_TOKEN_ISSUERS:
        found = _detected(claim, "Apple", "an Apple", is_right=lambda name: name in apple.ID_TOKEN_ISSUERS)
        return _built_in("apple", found, further=federation.ios_bundle_id)
    if provider == "google" or issuer == _FIXED["google"]:
        return _built_in("google", _FIXED["google"])
    if provider == "azure" or azure.ID_TOKEN_ISSUER.fullmatch(issuer):
        authority = azure.authority_of(conf.current().providers["azure"])
        found = _detected(claim, "Azure", "an Azure", is_right=authority.issues_elsewhere)
        return _built_in("azure", found, profile_of=authority.profile_of)
    keycloak = conf.current().providers["keycloak"]
    if provider == "keycloak" or (keycloak.enabled and keycloak.url and issuer == keycloak.url):
        return _built_in("keycloak", keycloak.url)
    for name, its_issuer in _FIXED.items():
        if provider == name or issuer == its_issuer:
            return _built_in(name, its_issuer)
    if provider.startswith(custom.PREFIX):
        return _custom(provider)
    if issuer and issuer in federation.id_token_issuers:
        return Trusted(
            provider=issuer,
            issuer=openid_connect.Issuer(name=issuer),
            audiences=_filled(claim.client_id),
            checks_nonce=True,
            email_optional=False,
        )
    raise ValidationFailed(f'Custom OIDC provider "{provider}" not allowed')


def _detected(claim: Claim, provider: str, a_provider: str, *, is_right: Callable[[str], bool]) -> str:
    try:
        found = openid_connect.claimed_issuer(claim.id_token)
    except Unusable:
        raise ValidationFailed(f"Unable to detect issuer in ID token for {provider} provider") from None
    if not is_right(found):
        raise ValidationFailed(f"Detected ID token issuer is not {a_provider} ID token issuer")
    return found


def _built_in(
    name: str,
    issuer: str,
    *,
    further: str = "",
    profile_of: Callable[[Mapping[str, Any]], ProviderProfile] = issuers.profile_of,
) -> Trusted:
    config = conf.current().providers[name]
    if not config.enabled or not issuer:
        raise ProviderDisabled(f'Provider (issuer "{issuer}") is not enabled')
    return Trusted(
        provider=name,
        issuer=openid_connect.Issuer(name=issuer),
        audiences=_filled(*config.client_ids, further),
        # Facebook's limited login has a nonce of its own making.
        checks_nonce=not config.skip_nonce_check and name != "facebook",
        email_optional=config.email_optional,
        profile_of=profile_of,
    )


def _custom(identifier: str) -> Trusted:
    if not conf.current().custom_providers.enabled:
        raise ValidationFailed("Custom OAuth providers are disabled")
    row = CustomProvider.objects.filter(identifier=identifier).first()
    if row is None:
        raise ValidationFailed(f'Custom provider "{identifier}" not found')
    if not row.enabled:
        raise ProviderDisabled(f'Custom provider "{identifier}" is disabled')
    if row.provider_type != ProviderType.OIDC:
        raise ValidationFailed(f'Provider "{identifier}" is not an OIDC provider')
    return Trusted(
        provider=identifier,
        issuer=custom.issuer_of(row),
        audiences=_filled(*custom.audiences_of(row)),
        checks_nonce=not row.skip_nonce_check,
        email_optional=row.email_optional,
        profile_of=lambda said: custom.of_id_token(row, said),
    )


def _filled(*audiences: str) -> tuple[str, ...]:
    return tuple(audience for audience in audiences if audience)
