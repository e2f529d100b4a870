"""Base class of the endpoints where clients authenticate."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request

from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.renderers import NO_STORE
from authsvc.errors import ApiError, BodyTooLarge, HookError
from oauthserver import errors
from oauthserver.clients import authentication
from oauthserver.endpoints import ClientEndpoint

_SERVER_ERRORS = 500
_OAUTH_ERRORS = {
    401: "invalid_client",
    405: "invalid_request",
    408: "invalid_request",
    409: "temporarily_unavailable",
    413: "invalid_request",
    429: "temporarily_unavailable",
    503: "temporarily_unavailable",
    504: "temporarily_unavailable",
}
"""Status → `error`, if that of RFC 6749 §5.2 does not follow from the error itself."""


class AuthenticatedClientEndpoint(ClientEndpoint):
    """An endpoint where clients authenticate as at the token endpoint. Responses are not stored."""

    documented_errors: ClassVar[ErrorTypes] = (
        *ClientEndpoint.documented_errors,
        BodyTooLarge,
        errors.InvalidClient,
        errors.ClientRequired,
        errors.TokenRequestInvalid,
    )
    default_oauth_error: ClassVar[str] = "invalid_request"

    def handle_exception(self, exc: Exception) -> Any:
        response = super().handle_exception(exc)
        if isinstance(exc, errors.InvalidClient) and authentication.uses_basic(self.request.http):
            response["WWW-Authenticate"] = 'Basic realm="oauth"'
        return response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response["Cache-Control"], response["Pragma"] = NO_STORE, "no-cache"
        return super().finalize_response(request, response, *args, **kwargs)

    def oauth_error(self, error: ApiError) -> str:
        if isinstance(error, errors.InvalidClient):
            return "invalid_client"
        if isinstance(error, HookError) and error.status < _SERVER_ERRORS:
            return "access_denied"
        if error.status in _OAUTH_ERRORS:
            return _OAUTH_ERRORS[error.status]
        return "server_error" if error.status >= _SERVER_ERRORS else self.default_oauth_error
