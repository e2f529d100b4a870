"""/admin/custom-providers and /admin/custom-providers/{identifier}."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authsvc.api import parsing
from authsvc.api.openapi.document import Parameter, document
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import ValidationFailed
from oauthproviders.custom import custom_providers, schemas
from oauthproviders.custom.definitions import ProviderDefinition
from tokens.api import authentication
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin


class CustomProvidersEnabled(BasePermission):
    """Custom providers are enabled by the configuration."""

    documented_errors = (custom_providers.CustomProvidersDisabled,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        custom_providers.check_enabled()
        return True


class CustomProvidersView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, CustomProvidersEnabled)

    @document(
        query=(Parameter("type", "Return only providers of this type.", ("oauth2", "oidc")),),
        responses={200: schemas.CustomProviderList},
        errors=(ValidationFailed,),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the custom providers."""
        rows = custom_providers.list_providers(provider_type=parsing.query_parameter(request, "type"))
        return Response({"providers": [schemas.custom_provider_json(row) for row in rows]})

    @document(
        body=ProviderDefinition,
        responses={201: schemas.CustomProvider},
        errors=(ValidationFailed, custom_providers.TooManyCustomProviders, custom_providers.CustomProviderExists),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Create a custom provider."""
        row = custom_providers.create(
            parsing.parse_body(request, ProviderDefinition),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(schemas.custom_provider_json(row), status=201)


class CustomProviderView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, CustomProvidersEnabled)

    @document(
        responses={200: schemas.CustomProvider}, errors=(ValidationFailed, custom_providers.CustomProviderNotFound)
    )
    def get(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Return a custom provider."""
        return Response(schemas.custom_provider_json(custom_providers.find(identifier)))

    @document(
        body=ProviderDefinition,
        responses={200: schemas.CustomProvider},
        errors=(ValidationFailed, custom_providers.CustomProviderNotFound),
    )
    def put(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Update a custom provider."""
        changes = parsing.parse_body(request, ProviderDefinition)
        row = custom_providers.update(
            identifier,
            changes,
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(schemas.custom_provider_json(row))

    @document(responses={204: None}, errors=(ValidationFailed, custom_providers.CustomProviderNotFound))
    def delete(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Delete a custom provider."""
        custom_providers.delete(
            identifier, actor=authentication.get_admin(request).actor, caller=request.caller, at=timezone.now()
        )
        return Response(status=204)
