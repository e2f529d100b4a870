"""The definition of a custom provider in requests, and its validation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from authsvc.api.parsing import Body
from authsvc.errors import ValidationFailed
from oauthproviders.custom.provider import PREFIX
from oauthproviders.models import URL_FIELDS, ProviderType

_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9:-]{0,48}[a-z0-9]")
_MAX_LENGTHS = {"name": 100, "client_id": 512}
_MAX_URL_LENGTH = 2048
_REQUIRED_FOR_OAUTH2 = ("authorization_url", "token_url", "userinfo_url")
# Parameters of the protocol, which this service sets itself.
_RESERVED_PARAMETERS = frozenset(
    "client_id client_secret redirect_uri response_type state code_challenge code_challenge_method code_verifier"
    " nonce".split()
)
_PROTECTED_CLAIMS = frozenset(
    "id aud role app_metadata created_at updated_at confirmed_at email_confirmed_at phone_confirmed_at email_verified"
    " phone_verified banned_until is_super_admin".split()
)


class ProviderDefinition(Body, frozen=True):
    """A new provider, or the changes of an existing one; None and `""` count as absent."""

    example: ClassVar[tuple[str, ...]] = ("provider_type", "identifier", "name", "client_id", "client_secret", "issuer")
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
    def urls(self) -> list[str]:
        """The URLs that this service calls or redirects to."""
        return [url for name in URL_FIELDS if (url := getattr(self, name))]

    def values(self) -> dict[str, Any]:
        """The present values by column."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) not in (None, "")}


def check_complete(definition: ProviderDefinition) -> None:
    """Validate a new provider. Raises ValidationFailed for the first error."""
    if definition.provider_type not in ProviderType.values:
        raise ValidationFailed("provider_type must be either 'oauth2' or 'oidc'")
    if not definition.identifier:
        raise ValidationFailed("identifier is required")
    check_identifier(definition.identifier)
    for name in ("name", "client_id", "client_secret"):
        if not getattr(definition, name):
            raise ValidationFailed(f"{name} is required")
    if definition.provider_type == ProviderType.OIDC and not definition.issuer:
        raise ValidationFailed("issuer is required for OIDC providers")
    for name in _REQUIRED_FOR_OAUTH2:
        if definition.provider_type == ProviderType.OAUTH2 and not getattr(definition, name):
            raise ValidationFailed(f"{name} is required for OAuth2 providers")
    if not _IDENTIFIER.fullmatch(definition.identifier):
        raise ValidationFailed(
            "identifier must have 2 to 50 lower-case letters, digits, colons and hyphens, and end in a letter or digit"
        )
    check_values(definition)


def check_identifier(identifier: str) -> None:
    """Raises ValidationFailed for an identifier without the prefix."""
    if not identifier.startswith(PREFIX):
        raise ValidationFailed(f"identifier must start with '{PREFIX}' prefix, e.g. '{PREFIX}{identifier}'")


def check_values(definition: ProviderDefinition) -> None:
    """Validate the present values. Raises ValidationFailed for the first error."""
    for message in _errors(definition):
        raise ValidationFailed(message)


def _errors(definition: ProviderDefinition) -> Iterator[str]:
    for key, value in (definition.authorization_params or {}).items():
        if key.lower() in _RESERVED_PARAMETERS:
            yield f"Cannot override reserved OAuth parameter: {key}"
        if not isinstance(value, str):
            yield f'Authorization parameter "{key}" must be a string'
    for target in definition.attribute_mapping or {}:
        if target in _PROTECTED_CLAIMS:
            yield f"Cannot map to protected system field: {target}"
    if not all(isinstance(claim, str) and claim for claim in definition.custom_claims_allowlist or []):
        yield "custom_claims_allowlist entries must be non-empty strings"
    for name, limit in _MAX_LENGTHS.items():
        if len(getattr(definition, name) or "") > limit:
            yield f"{name} must have at most {limit} characters"
    if any(len(url) > _MAX_URL_LENGTH for url in definition.urls):
        yield f"a URL must have at most {_MAX_URL_LENGTH} characters"
