"""Errors of bearer tokens, permissions and the grant type."""

from __future__ import annotations

from authsvc.errors import ApiError


class NoAuthorization(ApiError):
    status = 401
    error_code = "no_authorization"
    message = "This endpoint requires a valid Bearer token"


class MissingSubject(ApiError):
    status = 403
    error_code = "bad_jwt"
    message = "invalid claim: missing sub claim"


class SubjectNotAUuid(ApiError):
    status = 400
    error_code = "bad_jwt"
    message = "invalid claim: sub claim must be a UUID"


class SessionIdNotAUuid(ApiError):
    status = 403
    error_code = "bad_jwt"
    message = "invalid claim: session_id claim must be a UUID"


class IdTokenNotAllowed(ApiError):
    """An ID token names its client and no session. It proves a sign-in to that client, and grants no access."""

    status = 403
    error_code = "bad_jwt"
    message = "invalid claim: an ID token is not an access token"


class ClientActsForNoUser(ApiError):
    """A client requested the access token for itself (`client_credentials`); APIs of others accept it."""

    status = 403
    error_code = "bad_jwt"
    message = "invalid claim: the access token belongs to a client and not to a user"


class ClientTokenNotAllowed(ApiError):
    """The access token of an OAuth client permits reading the user and ending its own session only."""

    status = 403
    error_code = "no_authorization"
    message = "OAuth client tokens are not allowed to perform this action"


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


class UnsupportedGrantType(ApiError):
    status = 400
    error_code = "invalid_credentials"
    message = "unsupported_grant_type"
    hint = "Name the grant in the query: POST /token?grant_type=password, refresh_token, pkce or id_token."


class OAuthServerDisabled(ApiError):
    status = 404
    error_code = "feature_disabled"
    message = "OAuth server is disabled"


class SamlDisabled(ApiError):
    status = 404
    error_code = "saml_provider_disabled"
    message = "SAML 2.0 is disabled"


class AuthCodeOrVerifierMissing(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "invalid request: both auth code and code verifier should be non-empty"
