"""Base classes of the OAuth server's endpoints: the switch, and errors with the members of RFC 6749."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authsvc import conf
from authsvc.api import exception_handler
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.views import Endpoint
from authsvc.errors import ApiError, OAuthError
from tokens.api.errors import OAuthServerDisabled


class OAuthServerEnabled(BasePermission):
    """The OAuth server is enabled; listed after the permissions that check the caller."""

    documented_errors = (OAuthServerDisabled,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        require_enabled()
        return True


class OAuthEndpoint(Endpoint):
    """An endpoint below `/oauth`. While the server is disabled, each request gets that error, before authentication."""

    documented_errors: ClassVar[ErrorTypes] = (OAuthServerDisabled,)

    def check_throttles(self, request: Request) -> None:
        require_enabled()
        super().check_throttles(request)


class ClientEndpoint(OAuthEndpoint):
    """An endpoint that clients call. While the server is enabled, errors have the members of both error formats."""

    def handle_exception(self, exc: Exception) -> Any:
        response: Response = super().handle_exception(exc)
        if conf.current().oauth_server.enabled and not isinstance(exc, OAuthError):
            error = exc if isinstance(exc, ApiError) else exception_handler.to_api_error(exc)
            if code := self.oauth_error(error):
                response.data |= {"error": code, "error_description": error.message}
        return response

    def oauth_error(self, error: ApiError) -> str:
        """The `error` of RFC 6749 or RFC 7591 for an error of this service; empty for none."""
        raise NotImplementedError


def require_enabled() -> None:
    """Raise OAuthServerDisabled if the OAuth server is disabled."""
    if not conf.current().oauth_server.enabled:
        raise OAuthServerDisabled
