"""GET /user/identities/authorize: linking a further way to sign in, as far as there are providers to link."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse

from accounts import errors
from authsvc.core.web import inputs
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens.authentication import BearerAuthentication
from tokens.permissions import IsSignedIn


class LinkIdentityView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    def get(self, request: ServiceRequest) -> HttpResponse:
        if not settings.AUTH.signup.manual_linking_enabled:
            raise errors.ManualLinkingDisabled
        raise errors.ProviderUnknown(inputs.query(request.http, "provider"))
