"""Errors of the authorization, callback and ID token endpoints."""

from __future__ import annotations

from authsvc.errors import ApiError, OAuthError, UnexpectedFailure, ValidationFailed


class ProviderNotUsable(ValidationFailed):
    """At the start of a flow."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Unsupported provider: {reason}")


class ProviderNoLongerUsable(ApiError):
    """At the callback."""

    status = 400
    error_code = "oauth_provider_not_supported"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Unsupported provider: {reason}")


# GET /authorize


class InvitedUserNotFound(ApiError):
    status = 404
    error_code = "user_not_found"
    message = "User identified by token not found"


class QueryTooLong(ValidationFailed):
    message = "The query is too long (max 8192 characters)"


class ChallengeMethodInvalid(ValidationFailed):
    message = "Invalid code_challenge_method"


class RequestTokenFailed(UnexpectedFailure):
    """OAuth 1.0a: the provider did not issue a request token."""

    message = "Error getting request token from external provider"


# GET and POST /callback: the state


class StateMissing(ApiError):
    status = 400
    error_code = "bad_oauth_callback"
    message = "OAuth state parameter missing"


class StateInvalid(ApiError):
    status = 400
    error_code = "bad_oauth_state"
    message = "OAuth state parameter is invalid"


class StateNotFound(ApiError):
    """The flow is unknown or used, or was started in another browser."""

    status = 400
    error_code = "bad_oauth_state"
    message = "OAuth state not found or expired"


class StateExpired(ApiError):
    status = 400
    error_code = "bad_oauth_state"
    message = "OAuth state has expired"


class StateAlreadyUsed(ApiError):
    status = 400
    error_code = "flow_state_already_used"
    message = "State has already been used"


class LinkingTargetNotFound(ApiError):
    status = 422
    error_code = "user_not_found"
    message = "Linking target user not found"


# GET and POST /callback: the provider


class CodeMissing(ApiError):
    status = 400
    error_code = "bad_oauth_callback"
    message = "OAuth callback with missing authorization code missing"


class ClientStateNotFound(ApiError):
    status = 422
    error_code = "oauth_client_state_not_found"
    message = "OAuth state not found"


class ClientStateExpired(ApiError):
    status = 422
    error_code = "oauth_client_state_expired"
    message = "OAuth state expired"


class ClientStateMismatch(ApiError):
    status = 400
    error_code = "oauth_invalid_state"
    message = "OAuth provider mismatch"


class VerifierMissing(ApiError):
    status = 400
    error_code = "oauth_invalid_state"
    message = "OAuth PKCE code verifier missing"


class ExchangeFailed(UnexpectedFailure):
    """The message contains the beginning of the code, to find it in a log."""

    def __init__(self, code: str) -> None:
        super().__init__(f"Unable to exchange external code: {code[:4]}")


class AccessTokenFailed(UnexpectedFailure):
    """OAuth 1.0a."""

    message = "Unable to retrieve access token"


class ProfileUnavailable(UnexpectedFailure):
    message = "Error getting user profile from external provider"


class ProviderEmailMissing(UnexpectedFailure):
    message = "Error getting user email from external provider"


# POST /token with an ID token


class ProviderDisabled(ApiError):
    """The issuer of an ID token belongs to a disabled provider."""

    status = 400
    error_code = "provider_disabled"


class SignInFailed(OAuthError):
    """An internal error after the verification of the ID token; the log contains the cause."""

    def __init__(self) -> None:
        super().__init__("server_error", "Internal Server Error")
