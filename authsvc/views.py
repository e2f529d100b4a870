"""What the service says of itself, and the answers for places it does not have."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

import authsvc
from authsvc.core.web import handler
from authsvc.core.web.renderers import Answer
from authsvc.core.web.views import Endpoint, ServiceRequest

_NO_CACHE = "no-cache"
_PROVIDERS = (
    "apple azure bitbucket discord facebook figma fly github gitlab google kakao keycloak linkedin linkedin_oidc notion"
    " slack slack_oidc snapchat spotify twitch twitter workos zoom"
).split()


class HealthView(Endpoint):
    """That the HTTP process is up; asks no database."""

    def get(self, request: ServiceRequest) -> HttpResponse:
        about = {
            "version": authsvc.__version__,
            "name": "authsvc",
            "description": "authsvc is a user registration and authentication API",
        }
        return Answer(about, cache=_NO_CACHE)


class SettingsView(Endpoint):
    """What a client may know of the configuration."""

    def get(self, request: ServiceRequest) -> HttpResponse:
        config = settings.AUTH
        external = {name: name in config.providers and config.providers[name].enabled for name in _PROVIDERS}
        external |= {
            "anonymous_users": config.signup.anonymous_enabled,
            "email": config.signup.email_enabled,
            "phone": config.signup.phone_enabled,
        }
        return Answer(
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
            cache=_NO_CACHE,
        )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return handler.answer(Http404(), request)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return handler.answer(BadRequest("Bad Request"), request)


def failed(request: HttpRequest) -> HttpResponse:
    return handler.answer(handler.InternalServerError(), request)
