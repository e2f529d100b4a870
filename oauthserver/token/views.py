"""/oauth/token (OAuth 2.1 §3.2), /oauth/revoke (RFC 7009) and /oauth/introspect (RFC 7662)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from authsvc.api.openapi.document import document
from authsvc.api.views import ServiceRequest
from authsvc.caller import Caller
from oauthserver import errors, scopes
from oauthserver.clients import authentication
from oauthserver.clients.client_endpoint import AuthenticatedClientEndpoint
from oauthserver.clients.client_metadata import AUTHORIZATION_CODE, CLIENT_CREDENTIALS, DEVICE_CODE, REFRESH_TOKEN
from oauthserver.clients.client_requests import ClientForm, ClientRequest
from oauthserver.models import OAuthClient
from oauthserver.token import client_credentials, code_exchange, device_exchange, revocation
from oauthserver.token.client_sessions import ClientSession
from oauthserver.token.introspection import Introspection
from tokens.api.grants import RefreshTokenGrant
from tokens.sessions import errors as session_errors
from tokens.sessions import refresh
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.refresh import RefreshingClient


class TokenForm(ClientForm, frozen=True):
    """The members of a token request."""

    needs: ClassVar[tuple[str, ...]] = ("grant_type",)
    example: ClassVar[tuple[str, ...]] = ("grant_type", "code", "redirect_uri", "code_verifier")
    grant_type: str | None = None
    """`authorization_code`, `refresh_token`, `client_credentials` or `urn:ietf:params:oauth:grant-type:device_code`."""
    code: str | None = None
    redirect_uri: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
    device_code: str | None = None
    resource: str | None = None
    """The API of the access token (RFC 8707); for a code, the same as in the authorization request."""
    scope: str | None = None
    """Scopes of the client itself, for the grant `client_credentials`."""


class TokenResponse(TypedDict):
    """Tokens of a client (RFC 6749 §5.1)."""

    access_token: str
    token_type: Literal["bearer"]
    expires_in: int
    """Seconds until the access token expires."""
    refresh_token: NotRequired[str]
    """Valid for one refresh, by the same client; none for the grant `client_credentials`."""
    scope: NotRequired[str]
    """The granted scopes, separated by spaces; absent without any."""
    id_token: NotRequired[str]
    """With the scope `openid`, after the exchange of a code."""


class IssuedTokenForm(ClientForm, frozen=True):
    """The members of a request about a token."""

    needs: ClassVar[tuple[str, ...]] = ("token",)
    example: ClassVar[tuple[str, ...]] = ("token",)
    token: str | None = None
    """A refresh token or an access token."""
    token_type_hint: str | None = None
    """Ignored: the form of a token shows its type."""


class IntrospectionResponse(TypedDict):
    """The state of a token (RFC 7662 §2.2); only `active` for one that is not active, unknown, or of another client."""

    active: bool
    scope: NotRequired[str]
    """Scopes, separated by spaces."""
    client_id: NotRequired[str]
    sub: NotRequired[str]
    """The user; the client itself for the grant `client_credentials`."""
    token_type: NotRequired[Literal["bearer"]]
    """Of access tokens, like the following members."""
    exp: NotRequired[int]
    iat: NotRequired[int]
    aud: NotRequired[str | list[str]]
    iss: NotRequired[str]
    jti: NotRequired[str]


class OAuthTokenView(AuthenticatedClientEndpoint):
    default_oauth_error = "invalid_grant"

    @document(
        form=TokenForm,
        responses={200: TokenResponse},
        errors=(
            errors.GrantTypeNotAllowed,
            errors.InvalidGrant,
            errors.InvalidScope,
            errors.InvalidTarget,
            errors.DeviceCodeNotExchanged,
            errors.OwnerBanned,
            *RefreshTokenGrant.documented_errors,
            session_errors.ClientMismatch,
            session_errors.ClientAuthenticationNotAllowed,
            session_errors.ResourceNotGranted,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Issue tokens to a client, for a code, a device code, a refresh token or its own credentials.

        The body may also be JSON.
        """
        at = timezone.now()
        authenticated = authentication.authenticate(request.http, TokenForm, at=at)
        parameters = authenticated.require_parameters()
        grant_type = parameters.get("grant_type")
        if not grant_type:
            raise errors.TokenRequestInvalid("grant_type is required")
        client = authenticated.require_client()
        if grant_type not in client.grant_type_list:
            raise errors.GrantTypeNotAllowed(grant_type)
        grant = _GRANTS[grant_type]
        content = grant(parameters, client=client, caller=request.caller, at=at)
        return Response(content)


class RevocationView(AuthenticatedClientEndpoint):
    @document(form=IssuedTokenForm, responses={200: None}, errors=(errors.UnsupportedTokenType,))
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Revoke a token of the client: its session ends, with all its tokens.

        An unknown token and a token of another client get the same response.
        """
        at = timezone.now()
        client, parameters = authentication.authenticate(request.http, IssuedTokenForm, at=at).require()
        revocation.revoke(_token(parameters), client=client, caller=request.caller, at=at)
        return Response(status=200)


class IntrospectionView(AuthenticatedClientEndpoint):
    @document(form=IssuedTokenForm, responses={200: IntrospectionResponse})
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Return the state of a token, for a confidential client.

        It is the client of the token, or the API for which the access token was issued.
        """
        at = timezone.now()
        introspection = Introspection(at=at)
        client, parameters = authentication.authenticate(
            request.http, IssuedTokenForm, at=at, find=introspection.find_client
        ).require()
        if client.is_public:
            raise errors.InvalidClient("Introspection requires a confidential client")
        _token(parameters)
        return Response(introspection.describe(client))


def _exchange_code(parameters: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> dict[str, Any]:
    return _session_response(code_exchange.exchange(parameters, client=client, caller=caller, at=at))


def _exchange_device_code(
    parameters: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime
) -> dict[str, Any]:
    return _session_response(device_exchange.exchange(parameters, client=client, caller=caller, at=at))


def _refresh(parameters: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> dict[str, Any]:
    token = parameters.get("refresh_token")
    if not token:
        raise errors.TokenRequestInvalid("refresh_token is required for refresh_token grant")
    refreshing = RefreshingClient(id=client.id, resource=parameters.get("resource"))
    result = refresh.refresh(token=token, caller=caller, at=at, client=refreshing)
    return _token_response(result.tokens, scope=scopes.normalize(result.scopes))


def _issue_to_client(parameters: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> dict[str, Any]:
    access, scope = client_credentials.issue(parameters, client=client, caller=caller, at=at)
    content = {"access_token": access.token, "token_type": "bearer", "expires_in": access.expires_in}
    return {**content, "scope": scope} if scope else content


def _session_response(session: ClientSession) -> dict[str, Any]:
    content = _token_response(session.tokens, scope=session.scope)
    return {**content, "id_token": session.id_token} if session.id_token else content


def _token_response(tokens: TokenPair, *, scope: str) -> dict[str, Any]:
    return {
        "access_token": tokens.access.token,
        "token_type": "bearer",
        "expires_in": tokens.access.expires_in,
        "refresh_token": tokens.refresh_token,
        "scope": scope,
    }


def _token(parameters: ClientRequest) -> str:
    """The token in the form. Raises TokenRequestInvalid without one."""
    token = parameters.get("token")
    if not token:
        raise errors.TokenRequestInvalid("token is required")
    return token


_GRANTS = {
    AUTHORIZATION_CODE: _exchange_code,
    REFRESH_TOKEN: _refresh,
    CLIENT_CREDENTIALS: _issue_to_client,
    DEVICE_CODE: _exchange_device_code,
}
