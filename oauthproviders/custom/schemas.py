"""Custom providers in responses: their declared schema and their JSON."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

from accounts.schemas import Moment
from authsvc.api.renderers import rfc3339
from oauthproviders import models

_DISCOVERY_KEYS = (
    *("issuer", "authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "scopes_supported"),
    *("response_types_supported", "grant_types_supported", "subject_types_supported"),
)


class CustomProvider(TypedDict):
    """A custom provider, without its secret."""

    id: UUID
    provider_type: Literal["oauth2", "oidc"]
    identifier: str
    """Begins with `custom:`."""
    name: str
    client_id: str
    acceptable_client_ids: list[str]
    scopes: list[str]
    pkce_enabled: bool
    attribute_mapping: dict[str, Any]
    custom_claims_allowlist: list[str]
    authorization_params: dict[str, Any]
    enabled: bool
    email_optional: bool
    skip_nonce_check: bool
    issuer: NotRequired[str]
    discovery_url: NotRequired[str]
    authorization_url: NotRequired[str]
    token_url: NotRequired[str]
    userinfo_url: NotRequired[str]
    jwks_uri: NotRequired[str]
    discovery_document: NotRequired[dict[str, Any]]
    """The discovery document as last read."""
    created_at: Moment
    updated_at: Moment


class CustomProviderList(TypedDict):
    """All custom providers."""

    providers: list[CustomProvider]


def custom_provider_json(row: models.CustomProvider) -> dict[str, Any]:
    """A provider without its secret and without keys that have no value."""
    urls = {name: value for name in models.URL_FIELDS if (value := getattr(row, name)) is not None}
    cached = row.cached_discovery or {}
    discovery = {"discovery_document": {key: cached[key] for key in _DISCOVERY_KEYS if key in cached}} if cached else {}
    return {
        "id": str(row.id),
        "provider_type": row.provider_type,
        "identifier": row.identifier,
        "name": row.name,
        "client_id": row.client_id,
        "acceptable_client_ids": row.acceptable_client_ids,
        "scopes": row.scopes,
        "pkce_enabled": row.pkce_enabled,
        "attribute_mapping": row.attribute_mapping,
        "custom_claims_allowlist": row.custom_claims_allowlist,
        "authorization_params": row.authorization_params,
        "enabled": row.enabled,
        "email_optional": row.email_optional,
        "skip_nonce_check": row.skip_nonce_check,
        **urls,
        **discovery,
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
    }
