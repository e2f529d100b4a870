"""Errors of the OAuth server."""

from __future__ import annotations

from authsvc.errors import ApiError, OAuthError, ValidationFailed


class OAuthClientNotFound(ApiError):
    status = 404
    error_code = "oauth_client_not_found"
    message = "OAuth client not found"


class UnknownClient(ApiError):
    """The `client_id` of an authorization request is malformed, unknown or deleted."""

    status = 400
    error_code = "oauth_client_not_found"
    message = "invalid client_id"


class ClientIdMalformed(ValidationFailed):
    message = "invalid client_id format"


class DynamicRegistrationDisabled(ApiError):
    status = 403
    error_code = "oauth_dynamic_client_registration_disabled"
    message = "Dynamic client registration is not enabled"


class ClientBodyInvalid(ApiError):
    """The body of a client is not JSON, or a member has another type."""

    status = 400
    error_code = "bad_json"
    message = "Invalid JSON body"


class ClientMetadataInvalid(ValidationFailed):
    """A member of a client's metadata is missing or invalid."""

    registration_error = "invalid_client_metadata"
    """`error` of RFC 7591 §3.2.2."""


class RedirectUriInvalid(ClientMetadataInvalid):
    """A redirect URI is missing or not permitted."""

    registration_error = "invalid_redirect_uri"


class AuthorizationNotFound(ApiError):
    """The authorization request is unknown, expired, or another user's."""

    status = 404
    error_code = "oauth_authorization_not_found"
    message = "authorization not found"


class ConsentBodyInvalid(ApiError):
    status = 400
    error_code = "bad_json"
    message = "invalid JSON body"


class OriginNotAllowed(ValidationFailed):
    """The page that calls has an origin that is neither that of AUTH_SITE_URL nor in AUTH_URI_ALLOW_LIST."""

    message = "unauthorized request origin"


class ReauthenticationRequired(ApiError):
    """The client requires a sign-in that is newer than that of the session (`prompt=login`, `max_age`)."""

    status = 403
    error_code = "reauthentication_needed"
    message = "The application requires a new sign-in"


class SecondFactorRequired(ApiError):
    """The client requires a session at `aal2` (`acr_values`)."""

    status = 403
    error_code = "insufficient_aal"
    message = "AAL2 session is required by the application"


class GrantNotFound(ApiError):
    status = 404
    error_code = "oauth_consent_not_found"
    message = "No active grant found for this client"


class InvalidClient(ApiError):
    """The client authentication at the token endpoint failed."""

    status = 400
    error_code = "invalid_credentials"
    message = "Invalid client credentials"


class TokenRequestInvalid(OAuthError):
    """A parameter of the token request is missing or malformed."""

    def __init__(self, description: str) -> None:
        super().__init__("invalid_request", description)


class PushedRequestRefused(OAuthError):
    """A parameter of a pushed authorization request is missing or invalid (RFC 9126 §2.3)."""


class InvalidScope(OAuthError):
    """A requested scope is unknown, or not one of the client."""

    def __init__(self, description: str) -> None:
        super().__init__("invalid_scope", description)


class InvalidTarget(OAuthError):
    """The requested resource is not a URI without fragment and query (RFC 8707 §2)."""

    def __init__(self, description: str) -> None:
        super().__init__("invalid_target", description)


class UnsupportedTokenType(OAuthError):
    """The token has no session, so that it is valid until it expires (RFC 7009 §2.2.1)."""

    def __init__(self) -> None:
        super().__init__("unsupported_token_type", "Access tokens of the client itself cannot be revoked")


class InvalidGrant(OAuthError):
    """The code is unknown, expired, already exchanged, another client's, or does not match the request."""

    def __init__(self, description: str = "Invalid authorization code") -> None:
        super().__init__("invalid_grant", description)


class GrantTypeNotAllowed(OAuthError):
    """The client is not registered for the grant type."""

    def __init__(self, grant_type: str) -> None:
        super().__init__("unsupported_grant_type", f"Client is not allowed to use grant type: {grant_type}")


class ClientRequired(OAuthError):
    """The request names an empty client."""

    def __init__(self) -> None:
        super().__init__("invalid_client", "Client authentication required")


class DeviceRequestRefused(OAuthError):
    """A parameter of a device authorization request is missing or malformed."""

    def __init__(self, error: str = "invalid_request", description: str = "") -> None:
        super().__init__(error, description)


class DeviceCodeNotExchanged(OAuthError):
    """The user has not decided yet, has denied the request, or the code has expired (RFC 8628 §3.5)."""

    def __init__(self, error: str = "authorization_pending", description: str = "") -> None:
        super().__init__(error, description or "The user has not decided yet")


class DeviceCodeNotFound(ApiError):
    """The user code is unknown, expired or already used."""

    status = 404
    error_code = "oauth_authorization_not_found"
    message = "The code is not valid or has expired"


class OwnerBanned(OAuthError):
    """The user who approved the request is banned."""

    def __init__(self) -> None:
        super().__init__("access_denied", "User is banned")
