"""/oauth/revoke (RFC 7009) and /oauth/introspect (RFC 7662)."""

from __future__ import annotations

from typing import ClassVar, Literal, NotRequired, TypedDict

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from authsvc.api.openapi.document import document
from authsvc.api.views import ServiceRequest
from oauthserver import errors
from oauthserver.clients import authentication
from oauthserver.clients.client_endpoint import AuthenticatedClientEndpoint
from oauthserver.clients.client_requests import ClientForm, ClientRequest
from oauthserver.issued_tokens import revocation
from oauthserver.issued_tokens.introspection import Introspection


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


def _token(parameters: ClientRequest) -> str:
    """Raises TokenRequestInvalid without one."""
    token = parameters.get("token")
    if not token:
        raise errors.TokenRequestInvalid("token is required")
    return token
