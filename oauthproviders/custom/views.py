"""/admin/custom-providers and /admin/custom-providers/{identifier}."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authsvc import clock, conf
from authsvc.api import parsing
from authsvc.api.openapi.document import Parameter, document
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import ValidationFailed
from oauthproviders import errors, payloads, schemas
from oauthproviders.custom import custom_providers
from oauthproviders.custom.definitions import ProviderDefinition
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin


class IsSwitchedOn(BasePermission):
    """Administrators may define providers here."""

    documented_errors = (errors.CustomProvidersDisabled,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not conf.current().custom_providers.enabled:
            raise errors.CustomProvidersDisabled
        return True


class CustomProvidersView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    @document(
        query=(Parameter("type", "Those of this type alone.", ("oauth2", "oidc")),),
        responses={200: schemas.CustomProviderList},
        errors=(ValidationFailed,),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the providers that administrators have defined."""
        found = custom_providers.listed(provider_type=parsing.query_parameter(request, "type"))
        return Response({"providers": [payloads.custom_provider(row) for row in found]})

    @document(
        body=ProviderDefinition,
        responses={201: schemas.CustomProvider},
        errors=(ValidationFailed, errors.TooManyCustomProviders, errors.CustomProviderExists),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Define a provider."""
        row = custom_providers.create(parsing.parse_body(request, ProviderDefinition), at=clock.now())
        return Response(payloads.custom_provider(row), status=201)


class CustomProviderView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    @document(responses={200: schemas.CustomProvider}, errors=(ValidationFailed, errors.CustomProviderNotFound))
    def get(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Show a provider."""
        return Response(payloads.custom_provider(custom_providers.find(identifier)))

    @document(
        body=ProviderDefinition,
        responses={200: schemas.CustomProvider},
        errors=(ValidationFailed, errors.CustomProviderNotFound),
    )
    def put(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Change a provider."""
        given = parsing.parse_body(request, ProviderDefinition)
        return Response(payloads.custom_provider(custom_providers.update(identifier, given, at=clock.now())))

    @document(responses={204: None}, errors=(ValidationFailed, errors.CustomProviderNotFound))
    def delete(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Remove a provider."""
        custom_providers.delete(identifier)
        return Response(status=204)
