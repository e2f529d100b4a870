"""/admin/custom-providers and /admin/custom-providers/{identifier}."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.renderers import Answer, NoContent
from authsvc.core.web.views import Endpoint, ServiceRequest
from oauthproviders import errors, payloads
from oauthproviders.definitions import Definition
from oauthproviders.services import custom_providers
from tokens.authentication import AdminAuthentication
from tokens.permissions import IsAdmin


class IsSwitchedOn(BasePermission):
    """Administrators may define providers here."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not settings.AUTH.custom_providers.enabled:
            raise errors.CustomProvidersDisabled
        return True


class CustomProvidersView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    def get(self, request: ServiceRequest) -> HttpResponse:
        found = custom_providers.listed(provider_type=inputs.query(request.http, "type"))
        return Answer({"providers": [payloads.custom_provider(row) for row in found]})

    def post(self, request: ServiceRequest) -> HttpResponse:
        row = custom_providers.create(inputs.parse(request.http, Definition), at=clock.now())
        return Answer(payloads.custom_provider(row), status=201)


class CustomProviderView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, IsSwitchedOn)

    def get(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        return Answer(payloads.custom_provider(custom_providers.find(identifier)))

    def put(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        given = inputs.parse(request.http, Definition)
        return Answer(payloads.custom_provider(custom_providers.update(identifier, given, at=clock.now())))

    def delete(self, request: ServiceRequest, identifier: str) -> HttpResponse:
        custom_providers.delete(identifier)
        return NoContent()
