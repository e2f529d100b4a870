"""What this app answers in JSON."""

from __future__ import annotations

from typing import Any

from authsvc import clock
from oauthproviders.flow.authorize import Departure
from oauthproviders.models import CustomProvider

_WHERE_GIVEN = ("issuer", "discovery_url", "authorization_url", "token_url", "userinfo_url", "jwks_uri")
_DISCOVERED = (
    *("issuer", "authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "scopes_supported"),
    *("response_types_supported", "grant_types_supported", "subject_types_supported"),
)


def departure(made: Departure) -> dict[str, str]:
    """For clients that send the browser to the provider themselves."""
    return {"url": made.url}


def custom_provider(row: CustomProvider) -> dict[str, Any]:
    """A provider without its secret; what it has no value for is left out."""
    addresses = {name: value for name in _WHERE_GIVEN if (value := getattr(row, name)) is not None}
    found = row.cached_discovery or {}
    discovered = {"discovery_document": {key: found[key] for key in _DISCOVERED if key in found}} if found else {}
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
        **addresses,
        **discovered,
        "created_at": clock.rfc3339(row.created_at),
        "updated_at": clock.rfc3339(row.updated_at),
    }
