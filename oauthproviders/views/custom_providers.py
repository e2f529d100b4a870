"""/admin/custom-providers and /admin/custom-providers/{identifier}."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from authsvc.core import clock
from authsvc.core.errors import ValidationFailed
from authsvc.core.web import inputs
from authsvc.core.web.declarations import Parameter, declares
from authsvc.core.web.renderers import Answer, NoContent
from authsvc.core.web.views import Endpoint, ServiceRequest
from oauthproviders import errors, payloads, shapes
from oauthproviders.definitions import ProviderDefinition
from oauthproviders.services import custom_providers
from tokens.authentication import AdminAuthentication
from tokens.permissions import IsAdmin


class IsSwitchedOn(BasePermission):
    """Administrators may define providers here."""

    refusals = (errors.CustomProvidersDisabled,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not settings.AUTH.custom_providers.enabled:
            raise errors.CustomProvidersDisabled
        return True


class CustomProvidersView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    @declares(
        query=(Parameter("type", "Those of this type alone.", ("oauth2", "oidc")),),
        answers={200: shapes.CustomProviderList},
        refusals=(ValidationFailed,),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the providers that administrators have defined."""
        found = custom_providers.listed(provider_type=inputs.query(request.http, "type"))
        return Answer({"providers": [payloads.custom_provider(row) for row in found]})

    @declares(
        body=ProviderDefinition,
        answers={201: shapes.CustomProvider},
        refusals=(ValidationFailed, errors.TooManyCustomProviders, errors.CustomProviderExists),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Define a provider."""
        row = custom_providers.create(inputs.parse(request.http, ProviderDefinition), at=clock.now())
        return Answer(payloads.custom_provider(row), status=201)


class CustomProviderView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    @declares(answers={200: shapes.CustomProvider}, refusals=(ValidationFailed, errors.CustomProviderNotFound))
    def get(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Show a provider."""
        return Answer(payloads.custom_provider(custom_providers.find(identifier)))

    @declares(
        body=ProviderDefinition,
        answers={200: shapes.CustomProvider},
        refusals=(ValidationFailed, errors.CustomProviderNotFound),
    )
    def put(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Change a provider."""
        given = inputs.parse(request.http, ProviderDefinition)
        return Answer(payloads.custom_provider(custom_providers.update(identifier, given, at=clock.now())))

    @declares(answers={204: None}, refusals=(ValidationFailed, errors.CustomProviderNotFound))
    def delete(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        """Remove a provider."""
        custom_providers.delete(identifier)
        return NoContent()
