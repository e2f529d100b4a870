"""Profiles from ID tokens, by issuer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accounts.identities.external_identity import ProviderProfile
from oauthproviders.base import profiles
from oauthproviders.providers import (
    apple,
    azure,
    facebook,
    google,
    kakao,
    linkedin_oidc,
    vercel_marketplace,
)

_BY_ISSUER: Mapping[str, Callable[[Mapping[str, Any]], ProviderProfile]] = {
    google.ID_TOKEN_ISSUER: google.profile_of,
    "accounts.google.com": google.profile_of,
    **dict.fromkeys(apple.ID_TOKEN_ISSUERS, apple.profile_of),
    facebook.ID_TOKEN_ISSUER: facebook.profile_of,
    linkedin_oidc.ID_TOKEN_ISSUER: linkedin_oidc.profile_of,
    kakao.ID_TOKEN_ISSUER: kakao.profile_of,
    vercel_marketplace.ID_TOKEN_ISSUER: vercel_marketplace.profile_of,
}


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile in the claims of a verified ID token. Raises InvalidProviderResponse."""
    issuer = token.get("iss")
    if not isinstance(issuer, str):
        return profiles.generic(token)
    if azure.ID_TOKEN_ISSUER.fullmatch(issuer):
        return azure.profile_of(token, is_of_own_tenant=True)
    return _BY_ISSUER.get(issuer, profiles.generic)(token)
