"""Errors of tokens, sessions and flows."""

from __future__ import annotations

from enum import StrEnum

from authsvc.errors import ApiError, OAuthError

# The bearer token of a request


class NoAuthorization(ApiError):
    status = 401
    error_code = "no_authorization"
    message = "This endpoint requires a valid Bearer token"


class BadJwt(ApiError):
    """The token is malformed, its signature is invalid, or it is expired or not yet valid."""

    status = 403
    error_code = "bad_jwt"

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid JWT: unable to parse or verify signature, {detail}")


class MissingSubject(ApiError):
    status = 403
    error_code = "bad_jwt"
    message = "invalid claim: missing sub claim"


class SubjectNotAUuid(ApiError):
    status = 400
    error_code = "bad_jwt"
    message = "invalid claim: sub claim must be a UUID"


class UserNotFoundForToken(ApiError):
    status = 403
    error_code = "user_not_found"
    message = "User from sub claim in JWT does not exist"


class SessionIdNotAUuid(ApiError):
    status = 403
    error_code = "bad_jwt"
    message = "invalid claim: session_id claim must be a UUID"


class SessionNotFound(ApiError):
    status = 403
    error_code = "session_not_found"
    message = "Session from session_id claim in JWT does not exist"


class SessionOver(ApiError):
    """The session to revoke has already ended."""

    status = 404
    error_code = "session_not_found"
    message = "The session has ended already"


class UserBanned(ApiError):
    """A banned user's access token."""

    status = 403
    error_code = "user_banned"
    message = "User is banned"


class SessionNoLongerValid(ApiError):
    """The session of an administrator has exceeded a time limit."""

    status = 403
    error_code = "session_expired"
    message = "Session is no longer valid"


class AnonymousNotAllowed(ApiError):
    """Anonymous users are rejected, because they could not sign in again."""

    status = 403
    error_code = "no_authorization"
    message = "Anonymous user not allowed to perform these actions"


class NotAdmin(ApiError):
    """The token is valid, but its role or the current role of its user is not an administrator role."""

    status = 403
    error_code = "not_admin"
    message = "User not allowed"


class AdminNeedsSecondFactor(ApiError):
    """An administrator with a second factor must have verified it in the session."""

    status = 403
    error_code = "insufficient_aal"
    message = "AAL2 session is required to administer when MFA is enabled"


class AudienceMismatch(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "Token audience doesn't match request audience"


# Grants of POST /token, POST /logout


class UnsupportedGrantType(ApiError):
    status = 400
    error_code = "invalid_credentials"
    message = "unsupported_grant_type"


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


# The refresh grant


class RefreshTokenNotValid(ApiError):
    """The text does not have the format of a refresh token."""

    status = 400
    error_code = "validation_failed"
    message = "Refresh token is not valid"


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


# PKCE: parameters and exchange


class IncompletePkceParameters(ApiError):
    """Challenge or method is missing, or the method is unknown."""

    status = 400
    error_code = "validation_failed"
    message = "PKCE flow requires code_challenge_method and code_challenge"


class ChallengeMethodNotKnown(IncompletePkceParameters):
    """A separate class because /authorize reports it with another message."""


class CodeChallengeLength(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "code challenge has to be between 43 and 128 characters"


class CodeChallengeCharacters(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes"


class AuthCodeOrVerifierMissing(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "invalid request: both auth code and code verifier should be non-empty"


class FlowStateNotFound(ApiError):
    status = 404
    error_code = "flow_state_not_found"
    message = "invalid flow state, no valid flow state found"


class FlowStateExpired(ApiError):
    status = 422
    error_code = "flow_state_expired"
    message = "invalid flow state, flow state has expired"


class BadCodeVerifier(ApiError):
    status = 400
    error_code = "bad_code_verifier"
    message = "code challenge does not match previously saved code verifier"


class UnknownChallengeMethod(ApiError):
    """The stored flow has an unknown challenge method."""

    status = 400
    error_code = "bad_code_verifier"
    message = "code challenge method not supported"


class NoFlowForLink(ApiError):
    """The flow of a PKCE link no longer exists."""

    status = 400
    error_code = "flow_state_not_found"
    message = "No associated flow state found. no flow of this user and method is open"
