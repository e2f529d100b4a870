"""/oauth/device_authorization (RFC 8628 §3.1)."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from authsvc.api.openapi.document import document
from authsvc.api.throttling import Bucket
from authsvc.api.views import ServiceRequest
from oauthserver import errors
from oauthserver.clients import authentication
from oauthserver.clients.client_endpoint import AuthenticatedClientEndpoint
from oauthserver.clients.client_metadata import DEVICE_CODE
from oauthserver.clients.client_requests import ClientForm
from oauthserver.device import device_requests


class DeviceAuthorizationForm(ClientForm, frozen=True):
    """The members of a device authorization request."""

    example: ClassVar[tuple[str, ...]] = ("client_id", "scope")
    scope: str | None = None
    """Scopes, separated by spaces; `AUTH_OAUTH_SERVER_DEFAULT_SCOPE` without any."""
    resource: str | None = None
    """The API for which tokens are requested (RFC 8707), an additional audience of them."""
    acr_values: str | None = None
    """`aal2` requires a second factor."""
    max_age: str | None = None
    """The longest time since the sign-in, in seconds."""


class DeviceAuthorizationResponse(TypedDict):
    """The codes of a device (RFC 8628 §3.2)."""

    device_code: str
    """The device exchanges it at `/oauth/token`."""
    user_code: str
    """The device shows it to the user."""
    verification_uri: str
    """The page at which the user types the code."""
    verification_uri_complete: str
    """The same page with the code, for a QR code."""
    expires_in: int
    """Seconds until both codes expire."""
    interval: int
    """Seconds between two polls of the device."""


class DeviceAuthorizationView(AuthenticatedClientEndpoint):
    throttle_scope = Bucket.DEVICE_AUTHORIZATION

    @document(
        form=DeviceAuthorizationForm,
        responses={200: DeviceAuthorizationResponse},
        errors=(errors.DeviceRequestRefused,),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Start the sign-in on a device without a browser. The body may also be JSON."""
        at = timezone.now()
        client, parameters = authentication.authenticate(request.http, DeviceAuthorizationForm, at=at).require()
        if DEVICE_CODE not in client.grant_type_list:
            raise errors.DeviceRequestRefused(
                "unauthorized_client", f"Client is not allowed to use grant type: {DEVICE_CODE}"
            )
        started = device_requests.start(parameters, client=client, at=at)
        return Response(
            {
                "device_code": started.device_code,
                "user_code": started.user_code,
                "verification_uri": started.verification_uri,
                "verification_uri_complete": started.verification_uri_complete,
                "expires_in": started.expires_in,
                "interval": device_requests.POLL_INTERVAL,
            }
        )
