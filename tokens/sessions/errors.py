"""Errors of sign-ins, sessions and refresh tokens."""

from __future__ import annotations

from enum import StrEnum

from authsvc.errors import ApiError, OAuthError


class UserNotFoundForToken(ApiError):
    status = 403
    error_code = "user_not_found"
    message = "User from sub claim in JWT does not exist"


class SessionNotFound(ApiError):
    status = 403
    error_code = "session_not_found"
    message = "Session from session_id claim in JWT does not exist"


class SessionAlreadyEnded(ApiError):
    """The session to revoke has already ended."""

    status = 404
    error_code = "session_not_found"
    message = "The session has ended already"


class ImpersonationNotAllowed(ApiError):
    """An operator uses the application as the user in this session, which permits no change of sign-in methods."""

    status = 403
    error_code = "impersonation_not_allowed"
    message = "An operator who views the application as a user is not allowed to perform this action"


class UserBanned(ApiError):
    """A banned user's access token."""

    status = 403
    error_code = "user_banned"
    message = "User is banned"


class UserBannedAtSignIn(ApiError):
    """A banned user after successful authentication."""

    status = 400
    error_code = "user_banned"
    message = "User is banned"


class UnsupportedLogoutScope(ApiError):
    status = 400
    error_code = "validation_failed"

    def __init__(self, scope: str) -> None:
        super().__init__(f'Unsupported logout scope "{scope}"')


class RefreshTokenNotValid(ApiError):
    """The text does not have the format of a refresh token."""

    status = 400
    error_code = "validation_failed"
    message = "Refresh token is not valid"
    hint = 'Send the refresh token of the last token response in the body: {"refresh_token": "…"}.'


class RefreshTokenNotFound(ApiError):
    status = 400
    error_code = "refresh_token_not_found"
    message = "Invalid Refresh Token: Refresh Token Not Found"


class UserBannedAtRefresh(ApiError):
    status = 400
    error_code = "user_banned"
    message = "Invalid Refresh Token: User Banned"


class NoValidSession(ApiError):
    """The session of an imported refresh token has ended."""

    status = 400
    error_code = "session_not_found"
    message = "Invalid Refresh Token: No Valid Session Found"


class Expiry(StrEnum):
    """The limit that ended a session; the value is part of the message."""

    LIFETIME = ""
    INACTIVITY = "Inactivity"
    LOW_AAL = "Low AAL: User Needs MFA Verification"
    NEWER_LOGIN = "Revoked by Newer Login"


class SessionExpired(ApiError):
    status = 400
    error_code = "session_expired"

    def __init__(self, reason: Expiry = Expiry.LIFETIME) -> None:
        self.reason = reason
        super().__init__("Invalid Refresh Token: Session Expired" + (f" ({reason})" if reason else ""))


class RefreshTokenReused(ApiError):
    status = 400
    error_code = "refresh_token_already_used"
    message = "Invalid Refresh Token: Already Used"


class RefreshTokenNotIssuedHere(ApiError):
    """The counter of the token is higher than that of its session, although the key is right."""

    status = 400
    error_code = "validation_failed"
    message = "Invalid Refresh Token: Not Issued By This Server"


class TooManyConcurrentRefreshes(ApiError):
    status = 409
    error_code = "conflict"
    message = "Too many concurrent token refresh requests on the same session or refresh token"


class ClientAuthenticationRequired(OAuthError):
    """The refresh of an OAuth client's session requires client authentication."""

    def __init__(self) -> None:
        super().__init__("invalid_client", "Client authentication required for OAuth session")


class ClientMismatch(OAuthError):
    """The refresh token belongs to the session of another OAuth client."""

    def __init__(self) -> None:
        super().__init__("invalid_client", "Client does not match the session's OAuth client")


class ResourceNotGranted(OAuthError):
    """An OAuth client requests an access token for a resource that the user has not granted (RFC 8707 §2.2)."""

    def __init__(self) -> None:
        super().__init__("invalid_target", "The resource was not granted to the session")


class ClientAuthenticationNotAllowed(OAuthError):
    """An OAuth client presents the refresh token of a user's own session."""

    def __init__(self) -> None:
        super().__init__("invalid_client", "Client authentication not allowed for non-OAuth session")
