"""What can be wrong on the way to a provider, on the way back, and with what it says."""

from __future__ import annotations

from authsvc.errors import ApiError, OAuthError, UnexpectedFailure, ValidationFailed


class Unusable(Exception):
    """A provider gave no usable answer. The text says why and quotes nothing of the call; it goes into the log alone.

    Raised by providers; the journeys turn it into what the client is told.
    """


class Unsupported(Exception):
    """A provider that is unknown, off or not completely configured; the text, which clients see, says which."""


class ProviderNotUsable(ValidationFailed):
    """Somebody wants to go there."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Unsupported provider: {reason}")


class ProviderNoLongerUsable(ApiError):
    """Somebody comes back from there."""

    status = 400
    error_code = "oauth_provider_not_supported"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Unsupported provider: {reason}")


# GET /authorize


class InvitedUserNotFound(ApiError):
    status = 404
    error_code = "user_not_found"
    message = "User identified by token not found"


class ChallengeMethodInvalid(ValidationFailed):
    message = "Invalid code_challenge_method"


class RequestTokenFailed(UnexpectedFailure):
    """OAuth 1.0a: the provider did not let a sign-in begin."""

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
    """Unknown or used; also when the browser is not the one in which the flow began."""

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
    """As much of the code is told as helps to find it in a log, and no more."""

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
    """Whose ID tokens are not taken."""

    status = 400
    error_code = "provider_disabled"


class NotEntered(OAuthError):
    """Something on our side after the token was found to be good; the cause is in the log."""

    def __init__(self) -> None:
        super().__init__("server_error", "Internal Server Error")


# /admin/custom-providers


class CustomProvidersDisabled(ApiError):
    status = 404
    error_code = "feature_disabled"
    message = "Custom OAuth providers are disabled"


class CustomProviderNotFound(ApiError):
    status = 404
    error_code = "custom_provider_not_found"
    message = "Custom OAuth provider not found"


class TooManyCustomProviders(ApiError):
    status = 400
    error_code = "over_custom_provider_quota"
    message = "Maximum number of custom OAuth/OIDC providers reached"


class CustomProviderExists(ApiError):
    status = 400
    error_code = "conflict"
    message = "A custom OAuth provider with this identifier already exists"
