"""The form of what this app answers, declared once for the description of the API; `payloads` makes it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

from accounts.schemas import Moment


class Departure(TypedDict):
    """Where the client is to send the browser."""

    url: str


class CustomProvider(TypedDict):
    """A provider that administrators have defined, without its secret."""

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
    """What its discovery document said when it was last read."""
    created_at: Moment
    updated_at: Moment


class CustomProviderList(TypedDict):
    """Every provider that administrators have defined."""

    providers: list[CustomProvider]
