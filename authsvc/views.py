"""Health, public settings, the start page, and error responses for unknown routes."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework.response import Response

import authsvc
from authsvc import conf
from authsvc.api import exception_handler, pages
from authsvc.api.openapi.document import Parameter, ResponseDoc, document
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.diagnostics import proxy_echo, readiness

_NO_CACHE = "no-cache"
_YES = frozenset({"1", "true"})
_PROVIDERS = (
    "apple azure bitbucket discord facebook figma fly github gitlab google kakao keycloak linkedin linkedin_oidc notion"
    " slack slack_oidc snapchat spotify twitch twitter workos zoom"
).split()


class About(TypedDict):
    """Name and version of the service."""

    version: str
    name: str
    description: str
    request: NotRequired[dict[str, Any]]
    """The request as it reached the service; only for signed requests of `manage.py doctor`."""


class Readiness(TypedDict):
    """Readiness of the process."""

    ready: bool
    checks: dict[str, Any]
    """`database`, `migrations` and `queue`, each with `ok` and details."""


class PublicSettings(TypedDict):
    """The public part of the configuration."""

    external: dict[str, bool]
    """Enabled sign-in methods: providers, `email`, `phone`, `anonymous_users`."""
    disable_signup: bool
    autoconfirm: bool
    mailer_autoconfirm: bool
    """Email addresses need no confirmation."""
    phone_autoconfirm: bool
    sms_provider: str
    saml_enabled: bool
    saml_private_key_next_configured: bool
    passkeys_enabled: bool


class HealthView(Endpoint):
    """Liveness without a database statement; with `?ready=1` readiness. Many monitors send HEAD requests."""

    http_method_names = ["get", "head"]

    @document(
        query=(Parameter("ready", "`1`: report whether the process can serve requests.", ("1", "true")),),
        responses={200: (About, Readiness), 503: ResponseDoc("Not ready.", Readiness)},
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Report that the process is running, or its readiness."""
        if request.http.GET.get("ready") in _YES:
            state = readiness.check()
            return Response(state.payload, status=200 if state.is_ready else 503)
        about = {
            "version": authsvc.__version__,
            "name": "authsvc",
            "description": "authsvc is a user registration and authentication API",
        }
        if proxy_echo.is_requested(request.http):
            return Response({**about, "request": proxy_echo.echo(request.http)})
        return Response(about, headers={"Cache-Control": _NO_CACHE})


class SettingsView(Endpoint):
    """The public part of the configuration."""

    @document(responses={200: PublicSettings})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Return the public part of the configuration."""
        config = conf.current()
        external = {name: name in config.providers and config.providers[name].enabled for name in _PROVIDERS}
        external |= {
            "anonymous_users": config.signup.anonymous_enabled,
            "email": config.signup.email_enabled,
            "phone": config.signup.phone_enabled,
        }
        return Response(
            {
                "external": external,
                "disable_signup": config.signup.disabled,
                "autoconfirm": config.mailer.autoconfirm,
                "mailer_autoconfirm": config.mailer.autoconfirm,
                "phone_autoconfirm": config.sms.autoconfirm,
                "sms_provider": config.sms.provider,
                "saml_enabled": False,
                "saml_private_key_next_configured": False,
                "passkeys_enabled": config.passkeys.enabled,
            },
            headers={"Cache-Control": _NO_CACHE},
        )


def start(request: HttpRequest) -> HttpResponse:
    """The start page for browsers. Raises Http404 for clients of the API."""
    if not pages.prefers_html(request):
        raise Http404
    return pages.start_page()


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return pages.not_found(request)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return exception_handler.error_response(BadRequest("Bad Request"), request)


def failed(request: HttpRequest) -> HttpResponse:
    return exception_handler.error_response(exception_handler.InternalServerError(), request)
