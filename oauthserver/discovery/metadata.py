"""Metadata of the authorization server (RFC 8414 §2, OpenID Connect Discovery 1.0 §3)."""

from __future__ import annotations

from authsvc import conf
from oauthserver import scopes
from oauthserver.authorization import authorization_requests
from oauthserver.clients import client_metadata
from tokens.jwt import published_keys, signing_keys
from tokens.sessions import aal

_CONFIDENTIAL_METHODS = ("client_secret_basic", "client_secret_post", "private_key_jwt")
_CLAIMS = (
    "sub", "aud", "iss", "exp", "iat", "auth_time", "nonce", "acr", "sid", "email", "email_verified", "phone_number",
    "phone_number_verified", "name", "picture", "preferred_username", "updated_at",
)  # fmt: skip


def build() -> dict[str, object]:
    """The metadata; empty while the OAuth server is disabled."""
    server = conf.current().oauth_server
    if not server.enabled:
        return {}
    base = signing_keys.issuer_base()
    algorithms = sorted(published_keys.ALGORITHMS)
    registration = {"registration_endpoint": f"{base}/oauth/clients/register"}
    return {
        "issuer": signing_keys.issuer(),
        "authorization_endpoint": f"{base}/oauth/authorize",
        "pushed_authorization_request_endpoint": f"{base}/oauth/par",
        "require_pushed_authorization_requests": False,
        "token_endpoint": f"{base}/oauth/token",
        "userinfo_endpoint": f"{base}/oauth/userinfo",
        "jwks_uri": f"{base}/.well-known/jwks.json",
        **(registration if server.allow_dynamic_registration else {}),
        **_pages(base),
        "backchannel_logout_supported": scopes.can_issue_id_tokens(),
        "backchannel_logout_session_supported": scopes.can_issue_id_tokens(),
        "scopes_supported": scopes.supported(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(client_metadata.GRANT_TYPES),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [signing_keys.current().signing.alg],
        "token_endpoint_auth_methods_supported": [*_CONFIDENTIAL_METHODS, "none"],
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint": f"{base}/oauth/revoke",
        "revocation_endpoint_auth_methods_supported": [*_CONFIDENTIAL_METHODS, "none"],
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_endpoint": f"{base}/oauth/introspect",
        "introspection_endpoint_auth_methods_supported": list(_CONFIDENTIAL_METHODS),
        "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
        "code_challenge_methods_supported": ["S256", "plain"] if server.allow_plain_pkce else ["S256"],
        "claims_supported": list(_CLAIMS),
        "claims_parameter_supported": False,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
        "prompt_values_supported": list(authorization_requests.PROMPTS),
        "acr_values_supported": [aal.AAL1, aal.AAL2],
        "authorization_response_iss_parameter_supported": True,
    }


def _pages(base: str) -> dict[str, object]:
    """The endpoints that need the hosted pages (RFC 8628 §4, OpenID Connect RP-Initiated Logout 1.0 §2.1)."""
    if not conf.current().pages.enabled:
        return {}
    return {
        "device_authorization_endpoint": f"{base}/oauth/device_authorization",
        "end_session_endpoint": f"{base}/oauth/logout",
    }
