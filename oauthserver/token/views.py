"""/oauth/token (OAuth 2.1 §3.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from authsvc.api.openapi.document import document
from authsvc.api.renderers import NO_STORE
from authsvc.api.views import ServiceRequest
from authsvc.caller import Caller
from authsvc.errors import ApiError
from oauthserver import errors, scopes
from oauthserver.clients import authentication
from oauthserver.clients.client_metadata import AUTHORIZATION_CODE, REFRESH_TOKEN
from oauthserver.clients.client_requests import ClientForm, ClientRequest
from oauthserver.endpoints import ClientEndpoint
from oauthserver.models import OAuthClient
from oauthserver.token import code_exchange
from tokens.api.grants import RefreshTokenGrant
from tokens.sessions import errors as session_errors
from tokens.sessions import refresh
from tokens.sessions.lifecycle import TokenPair

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


class TokenForm(ClientForm, frozen=True):
    """The members of a token request."""

    needs: ClassVar[tuple[str, ...]] = ("grant_type",)
    example: ClassVar[tuple[str, ...]] = ("grant_type", "code", "redirect_uri", "code_verifier")
    grant_type: str | None = None
    """`authorization_code` or `refresh_token`."""
    code: str | None = None
    redirect_uri: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
    resource: str | None = None
    """The same as in the authorization request (RFC 8707)."""


class TokenResponse(TypedDict):
    """Tokens of a client (RFC 6749 §5.1)."""

    access_token: str
    token_type: Literal["bearer"]
    expires_in: int
    """Seconds until the access token expires."""
    refresh_token: str
    """Valid for one refresh, by the same client."""
    scope: str
    """The granted scopes, separated by spaces."""
    id_token: NotRequired[str]
    """With the scope `openid`, after the exchange of a code."""


class TokenView(ClientEndpoint):
    @document(
        form=TokenForm,
        responses={200: TokenResponse},
        errors=(
            errors.InvalidClient,
            errors.ClientRequired,
            errors.TokenRequestInvalid,
            errors.GrantTypeNotAllowed,
            errors.InvalidGrant,
            errors.OwnerBanned,
            *RefreshTokenGrant.documented_errors,
            session_errors.ClientMismatch,
            session_errors.ClientAuthenticationNotAllowed,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Exchange a code or a refresh token for tokens of the client. The body may also be JSON."""
        client, parameters = authentication.authenticate(request.http, TokenForm)
        if parameters is None:
            raise errors.TokenRequestInvalid("Invalid JSON body")
        grant_type = parameters.get("grant_type")
        if not grant_type:
            raise errors.TokenRequestInvalid("grant_type is required")
        if client is None:
            raise errors.ClientRequired
        if grant_type not in client.grant_type_list:
            raise errors.GrantTypeNotAllowed(grant_type)
        grant = _GRANTS[grant_type]
        content = grant(parameters, client=client, caller=request.caller, at=timezone.now())
        return Response(content)

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
        if error.status in _OAUTH_ERRORS:
            return _OAUTH_ERRORS[error.status]
        return "server_error" if error.status >= _SERVER_ERRORS else "invalid_grant"


def _exchange_code(parameters: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> dict[str, Any]:
    exchange = code_exchange.exchange(parameters, client=client, caller=caller, at=at)
    content = _token_response(exchange.tokens, scope=exchange.scope)
    return {**content, "id_token": exchange.id_token} if exchange.id_token else content


def _refresh(parameters: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> dict[str, Any]:
    token = parameters.get("refresh_token")
    if not token:
        raise errors.TokenRequestInvalid("refresh_token is required for refresh_token grant")
    result = refresh.refresh(token=token, caller=caller, at=at, client_id=client.id)
    return _token_response(result.tokens, scope=scopes.normalize(result.scopes))


def _token_response(tokens: TokenPair, *, scope: str) -> dict[str, Any]:
    return {
        "access_token": tokens.access.token,
        "token_type": "bearer",
        "expires_in": tokens.access.expires_in,
        "refresh_token": tokens.refresh_token,
        "scope": scope,
    }


_GRANTS = {AUTHORIZATION_CODE: _exchange_code, REFRESH_TOKEN: _refresh}
