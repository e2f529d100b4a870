"""Response schemas of the token endpoints, for the API documentation."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

User = Annotated[Any, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/User"})]
"""The user; the app that owns users declares the schema."""


class Session(TypedDict):
    """Tokens of a new or refreshed session (RFC 6749 §5.1)."""

    access_token: str
    """A JWT, sent as `Authorization: Bearer …`."""
    token_type: Literal["bearer"]
    expires_in: int
    """Seconds until the access token expires."""
    expires_at: int
    """The expiry time in Unix seconds."""
    refresh_token: str
    """Valid for one refresh."""
    user: User


class SessionOfFlow(Session):
    """A session from a PKCE flow."""

    provider_token: NotRequired[str]
    """The provider's access token, after sign-in with a provider."""
    provider_refresh_token: NotRequired[str]


class KeySet(TypedDict):
    """A JSON Web Key Set (RFC 7517 §5)."""

    keys: list[dict[str, Any]]
    """The public parts of the asymmetric keys; empty when tokens are signed with the shared secret."""


class Discovery(TypedDict):
    """Metadata for verifiers of access tokens (OpenID Connect Discovery 1.0 §3, RFC 8414 §2)."""

    issuer: str
    """The `iss` claim, if `AUTH_JWT_ISSUER` is set; else the external URL of the API."""
    jwks_uri: str
    response_types_supported: list[str]
    """Empty: the service is no OAuth server."""
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]
    """The algorithm of the signing key."""
    claims_supported: list[str]
