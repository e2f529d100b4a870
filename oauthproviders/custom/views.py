"""/admin/custom-providers and /admin/custom-providers/{identifier}."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from authsvc import clock, conf
from authsvc.api import parsing
from authsvc.api.openapi.document import Parameter, declares
from authsvc.api.renderers import Answer, NoContent
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import ValidationFailed
from oauthproviders import errors, payloads, schemas
from oauthproviders.custom import custom_providers
from oauthproviders.custom.definitions import ProviderDefinition
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin


class IsSwitchedOn(BasePermission):
    """Administrators may define providers here."""

    refusals = (errors.CustomProvidersDisabled,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not conf.current().custom_providers.enabled:
            raise errors.CustomProvidersDisabled
        return True


class CustomProvidersView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    @declares(
        query=(Parameter("type", "Those of this type alone.", ("oauth2", "oidc")),),
        answers={200: schemas.CustomProviderList},
        refusals=(ValidationFailed,),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the providers that administrators have defined."""
        found = custom_providers.listed(provider_type=parsing.query(request.http, "type"))
        return Answer({"providers": [payloads.custom_provider(row) for row in found]})

    @declares(
        body=ProviderDefinition,
        answers={201: schemas.CustomProvider},
        refusals=(ValidationFailed, errors.TooManyCustomProviders, errors.CustomProviderExists),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Define a provider."""
        row = custom_providers.create(parsing.parse(request.http, ProviderDefinition), at=clock.now())
        return Answer(payloads.custom_provider(row), status=201)


class CustomProviderView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    @declares(answers={200: schemas.CustomProvider}, refusals=(ValidationFailed, errors.CustomProviderNotFound))
    def get(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Show a provider."""
        return Answer(payloads.custom_provider(custom_providers.find(identifier)))

    @declares(
        body=ProviderDefinition,
        answers={200: schemas.CustomProvider},
        refusals=(ValidationFailed, errors.CustomProviderNotFound),
    )
    def put(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Change a provider."""
        given = parsing.parse(request.http, ProviderDefinition)
        return Answer(payloads.custom_provider(custom_providers.update(identifier, given, at=clock.now())))

    @declares(answers={204: None}, refusals=(ValidationFailed, errors.CustomProviderNotFound))
    def delete(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Remove a provider."""
        custom_providers.delete(identifier)
        return NoContent()
