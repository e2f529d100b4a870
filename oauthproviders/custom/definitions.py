"""What an administrator may define as a provider: the checks of its single values, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from authsvc.api.parsing import Body
from authsvc.errors import ValidationFailed
from oauthproviders.custom.provider import PREFIX
from oauthproviders.models import ProviderType

_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9:-]{0,48}[a-z0-9]")
_LONGEST = {"name": 100, "client_id": 512}
_LONGEST_URL = 2048
_ADDRESSES = ("issuer", "discovery_url", "authorization_url", "token_url", "userinfo_url", "jwks_uri")
_NEEDED_BY_OAUTH2 = ("authorization_url", "token_url", "userinfo_url")
# Of the protocol, and what this service puts there itself.
_RESERVED_PARAMETERS = frozenset(
    "client_id client_secret redirect_uri response_type state code_challenge code_challenge_method code_verifier"
    " nonce".split()
)
_PROTECTED_CLAIMS = frozenset(
    "id aud role app_metadata created_at updated_at confirmed_at email_confirmed_at phone_confirmed_at email_verified"
    " phone_verified banned_until is_super_admin".split()
)


class ProviderDefinition(Body, frozen=True):
    """A provider as it is to be, or the changes of one; None, and `""`, is not given."""

    provider_type: str | None = None
    identifier: str | None = None
    name: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    acceptable_client_ids: list[str] | None = None
    scopes: list[str] | None = None
    pkce_enabled: bool | None = None
    attribute_mapping: dict[str, Any] | None = None
    custom_claims_allowlist: list[Any] | None = None
    authorization_params: dict[str, Any] | None = None
    enabled: bool | None = None
    email_optional: bool | None = None
    issuer: str | None = None
    discovery_url: str | None = None
    skip_nonce_check: bool | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    userinfo_url: str | None = None
    jwks_uri: str | None = None

    @property
    def addresses(self) -> list[str]:
        """Those that this service would call, or send people to."""
        return [address for name in _ADDRESSES if (address := getattr(self, name))]

    def values(self) -> dict[str, Any]:
        """What is given, by the name of its column."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) not in (None, "")}


def check_complete(given: ProviderDefinition) -> None:
    """Whether a provider could be made of it. Raises ValidationFailed with the first thing that is wrong."""
    if given.provider_type not in ProviderType.values:
        raise ValidationFailed("provider_type must be either 'oauth2' or 'oidc'")
    if not given.identifier:
        raise ValidationFailed("identifier is required")
    check_identifier(given.identifier)
    needed = ["name", "client_id", "client_secret"]
    for name in needed:
        if not getattr(given, name):
            raise ValidationFailed(f"{name} is required")
    if given.provider_type == ProviderType.OIDC and not given.issuer:
        raise ValidationFailed("issuer is required for OIDC providers")
    for name in _NEEDED_BY_OAUTH2:
        if given.provider_type == ProviderType.OAUTH2 and not getattr(given, name):
            raise ValidationFailed(f"{name} is required for OAuth2 providers")
    if not _IDENTIFIER.fullmatch(given.identifier):
        raise ValidationFailed(
            "identifier must have 2 to 50 lower-case letters, digits, colons and hyphens, and end in a letter or digit"
        )
    check_values(given)


def check_identifier(identifier: str) -> None:
    """Raises ValidationFailed for one that could not be a provider's."""
    if not identifier.startswith(PREFIX):
        raise ValidationFailed(f"identifier must start with '{PREFIX}' prefix, e.g. '{PREFIX}{identifier}'")


def check_values(given: ProviderDefinition) -> None:
    """Whether what is given can be kept, and leaves to this service what is its own. Raises ValidationFailed."""
    for wrong in _faults(given):
        raise ValidationFailed(wrong)


def _faults(given: ProviderDefinition) -> Iterator[str]:
    for key, value in (given.authorization_params or {}).items():
        if key.lower() in _RESERVED_PARAMETERS:
            yield f"Cannot override reserved OAuth parameter: {key}"
        if not isinstance(value, str):
            yield f'Authorization parameter "{key}" must be a string'
    for target in given.attribute_mapping or {}:
        if target in _PROTECTED_CLAIMS:
            yield f"Cannot map to protected system field: {target}"
    if not all(isinstance(each, str) and each for each in given.custom_claims_allowlist or []):
        yield "custom_claims_allowlist entries must be non-empty strings"
    for name, most in _LONGEST.items():
        if len(getattr(given, name) or "") > most:
            yield f"{name} must have at most {most} characters"
    if any(len(address) > _LONGEST_URL for address in given.addresses):
        yield f"a URL must have at most {_LONGEST_URL} characters"
