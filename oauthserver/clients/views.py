"""/admin/oauth/clients, and dynamic registration at /oauth/clients/register (RFC 7591)."""

from __future__ import annotations

from typing import TypeVar

from django.http import HttpResponse, QueryDict
from django.utils import timezone
from rest_framework.response import Response

from authsvc import audit, conf
from authsvc.api import pagination, parsing
from authsvc.api.openapi.document import PAGE, PER_PAGE, TOTALS, ResponseDoc, document
from authsvc.api.pagination import PageRequest
from authsvc.api.parsing import Body
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import ApiError, BadJson
from oauthserver import errors
from oauthserver.clients import clients, schemas
from oauthserver.clients.client_metadata import ClientRegistration, ClientUpdate
from oauthserver.endpoints import ClientEndpoint, OAuthServerEnabled
from oauthserver.models import RegistrationType
from tokens.api import authentication
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin

MAX_CLIENTS = 1_000
"""Clients in a list without pages. Anyone may register clients, each of up to 50 KB."""
Input = TypeVar("Input", bound=Body)
_SELF_REGISTERED = audit.Administrator(role="", subject="dynamic client registration")
_ID_ERRORS = (errors.ClientIdMalformed, errors.OAuthClientNotFound)


class ClientsView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, OAuthServerEnabled)

    @document(query=(PAGE, PER_PAGE), responses={200: ResponseDoc("", schemas.ClientList, headers=TOTALS)})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the clients, newest first.

        The newest 1,000, unless `page` or `per_page` is given. `Link` names the next page, if there is one.
        """
        requested = _requested_page(request)
        page = requested or PageRequest(size=MAX_CLIENTS)
        listed, total = clients.list_clients(page)
        body = {"clients": [schemas.client_json(client) for client in listed]}
        if requested is None and total == len(listed):
            return Response(body)
        parameters = request.GET if requested else QueryDict(f"per_page={page.size}")
        links = pagination.links(request.path, parameters, page=page, total=total)
        return Response(body, headers={"X-Total-Count": str(total), "Link": links})

    @document(
        body=ClientRegistration,
        responses={201: schemas.ClientWithSecret},
        errors=(errors.ClientBodyInvalid, errors.RedirectUriInvalid, errors.ClientMetadataInvalid),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Register a client."""
        registered = clients.register(
            _parse_body(request, ClientRegistration),
            registration_type=RegistrationType.MANUAL,
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(schemas.registered_client_json(registered), status=201)


class ClientView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, OAuthServerEnabled)

    @document(responses={200: schemas.ClientInformation}, errors=_ID_ERRORS)
    def get(self, request: ServiceRequest, client_id: str) -> HttpResponse:
        """Return a client."""
        return Response(schemas.client_json(clients.find(client_id)))

    @document(
        body=ClientUpdate,
        responses={200: schemas.ClientInformation},
        errors=(
            *_ID_ERRORS,
            errors.ClientBodyInvalid,
            errors.RedirectUriInvalid,
            errors.ClientMetadataInvalid,
        ),
    )
    def put(self, request: ServiceRequest, client_id: str) -> HttpResponse:
        """Change a client."""
        clients.find(client_id)  # an unknown client is reported before an unreadable body
        client = clients.update(
            client_id,
            _parse_body(request, ClientUpdate),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(schemas.client_json(client))

    @document(responses={204: None}, errors=_ID_ERRORS)
    def delete(self, request: ServiceRequest, client_id: str) -> HttpResponse:
        """Delete a client. Its sessions can no longer be refreshed."""
        clients.delete(
            client_id, actor=authentication.get_admin(request).actor, caller=request.caller, at=timezone.now()
        )
        return Response(status=204)


class ClientSecretView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, OAuthServerEnabled)

    @document(responses={200: schemas.ClientWithSecret}, errors=(*_ID_ERRORS, errors.ClientMetadataInvalid))
    def post(self, request: ServiceRequest, client_id: str) -> HttpResponse:
        """Replace the secret of a confidential client. The former one is invalid at once."""
        registered = clients.regenerate_secret(
            client_id, actor=authentication.get_admin(request).actor, caller=request.caller, at=timezone.now()
        )
        return Response(schemas.registered_client_json(registered))


class ClientRegistrationView(ClientEndpoint):
    throttle_scope = Bucket.OAUTH_CLIENT_REGISTER

    @document(
        body=ClientRegistration,
        responses={201: schemas.RegisteredClientInformation},
        errors=(
            errors.DynamicRegistrationDisabled,
            errors.ClientBodyInvalid,
            errors.RedirectUriInvalid,
            errors.ClientMetadataInvalid,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Register a client without an administrator (RFC 7591)."""
        if not conf.current().oauth_server.allow_dynamic_registration:
            raise errors.DynamicRegistrationDisabled
        registered = clients.register(
            _parse_body(request, ClientRegistration),
            registration_type=RegistrationType.DYNAMIC,
            actor=_SELF_REGISTERED,
            caller=request.caller,
            at=timezone.now(),
        )
        content = schemas.registered_client_json(registered)
        content["client_id_issued_at"] = int(registered.client.created_at.timestamp())
        if registered.secret:
            content["client_secret_expires_at"] = 0
        return Response(content, status=201)

    def oauth_error(self, error: ApiError) -> str:
        if isinstance(error, errors.ClientBodyInvalid):
            return errors.ClientMetadataInvalid.registration_error
        return error.registration_error if isinstance(error, errors.ClientMetadataInvalid) else ""


def _parse_body(request: ServiceRequest, body_type: type[Input]) -> Input:
    """The body of a request. Raises ClientBodyInvalid."""
    try:
        return parsing.parse_body(request, body_type)
    except BadJson:
        raise errors.ClientBodyInvalid from None


def _requested_page(request: ServiceRequest) -> PageRequest | None:
    """The page that positive numbers in `page` and `per_page` name; None without them.

    Client libraries send both parameters empty.
    """
    number, size = (pagination.first(request.GET, name) for name in ("page", "per_page"))
    numbers = {
        name: int(text)
        for name, text in (("number", number), ("size", size))
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0
    }
    return PageRequest(**numbers) if numbers else None
