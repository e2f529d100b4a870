"""/user/oauth/grants."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts.schemas import Moment
from authsvc.api import parsing
from authsvc.api.openapi.document import Parameter, document
from authsvc.api.renderers import rfc3339
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import ValidationFailed
from oauthserver import errors, resources, scopes
from oauthserver.authorization.schemas import GrantedClient, client_json
from oauthserver.endpoints import OAuthServerEnabled
from oauthserver.grants import grants
from oauthserver.grants.grants import GrantedAccess
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn


class UserGrant(TypedDict):
    """Access that the user has granted to a client."""

    client: GrantedClient
    scopes: list[str]
    resource: NotRequired[list[str]]
    """The APIs that the client may use for the user (RFC 8707)."""
    granted_at: Moment


class GrantsView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, OAuthServerEnabled)

    @document(responses={200: list[UserGrant]})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the clients to which the user has granted access, newest first."""
        return Response(
            [_grant_json(grant) for grant in grants.list_grants(authentication.get_signed_in_user(request))]
        )

    @document(
        query=(Parameter("client_id", "The client.", required=True),),
        responses={204: None},
        errors=(ValidationFailed, errors.ClientIdMalformed, errors.GrantNotFound),
    )
    def delete(self, request: ServiceRequest) -> HttpResponse:
        """Revoke the access of a client, and end its sessions of the user."""
        grants.revoke(
            parsing.query_parameter(request, "client_id"),
            signed_in=authentication.get_signed_in_user(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(status=204)


def _grant_json(grant: GrantedAccess) -> dict[str, Any]:
    return {
        "client": client_json(grant.client),
        "scopes": scopes.parse(grant.scopes),
        **({"resource": resources.parse(grant.resource)} if grant.resource else {}),
        "granted_at": rfc3339(grant.granted_at),
    }
