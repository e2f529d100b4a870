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
    """Metadata for clients and verifiers of access tokens (OpenID Connect Discovery 1.0 §3, RFC 8414 §2).

    While the OAuth server is disabled, it names no endpoints.
    """

    issuer: str
    """The `iss` claim, if `AUTH_JWT_ISSUER` is set; else the external URL of the API."""
    jwks_uri: str
    response_types_supported: list[str]
    """Empty while the OAuth server is disabled."""
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]
    """The algorithm of the signing key."""
    claims_supported: list[str]
    authorization_endpoint: NotRequired[str]
    pushed_authorization_request_endpoint: NotRequired[str]
    require_pushed_authorization_requests: NotRequired[bool]
    """False: single clients may require it."""
    token_endpoint: NotRequired[str]
    device_authorization_endpoint: NotRequired[str]
    """If the hosted pages are enabled."""
    userinfo_endpoint: NotRequired[str]
    end_session_endpoint: NotRequired[str]
    """If the hosted pages are enabled."""
    backchannel_logout_supported: NotRequired[bool]
    backchannel_logout_session_supported: NotRequired[bool]
    registration_endpoint: NotRequired[str]
    """If clients can register themselves."""
    scopes_supported: NotRequired[list[str]]
    response_modes_supported: NotRequired[list[str]]
    grant_types_supported: NotRequired[list[str]]
    token_endpoint_auth_methods_supported: NotRequired[list[str]]
    token_endpoint_auth_signing_alg_values_supported: NotRequired[list[str]]
    """Algorithms of client assertions (`private_key_jwt`)."""
    revocation_endpoint: NotRequired[str]
    revocation_endpoint_auth_methods_supported: NotRequired[list[str]]
    revocation_endpoint_auth_signing_alg_values_supported: NotRequired[list[str]]
    introspection_endpoint: NotRequired[str]
    introspection_endpoint_auth_methods_supported: NotRequired[list[str]]
    introspection_endpoint_auth_signing_alg_values_supported: NotRequired[list[str]]
    code_challenge_methods_supported: NotRequired[list[str]]
    prompt_values_supported: NotRequired[list[str]]
    acr_values_supported: NotRequired[list[str]]
    claims_parameter_supported: NotRequired[bool]
    request_parameter_supported: NotRequired[bool]
    request_uri_parameter_supported: NotRequired[bool]
    authorization_response_iss_parameter_supported: NotRequired[bool]
    """Redirects to clients have `iss` (RFC 9207)."""
