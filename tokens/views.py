"""The token endpoint, logout, and what the service publishes about its keys."""

from __future__ import annotations

from django.http import HttpResponse

from authsvc.core import clock, plugins
from authsvc.core.errors import RequestRateExceeded
from authsvc.core.web import captcha, inputs
from authsvc.core.web.declarations import Choice, Parameter, declares
from authsvc.core.web.renderers import Answer, NoContent
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import authentication, errors, grants, keys, shapes
from tokens.authentication import BearerAuthentication
from tokens.permissions import IsSignedIn
from tokens.services import sessions

_PUBLISHED = "public, max-age=600"
# They present what somebody was given who has passed a captcha, or what another service vouches for.
_WITHOUT_CAPTCHA = frozenset({"refresh_token", "pkce", "id_token"})


class TokenView(Endpoint):
    @declares(
        choice=Choice(parameter="grant_type", alternatives=lambda: plugins.by_name("TOKEN_GRANTS")),
        answers={},
        refusals=(
            RequestRateExceeded,
            captcha.CaptchaFailed,
            captcha.CaptchaUnavailable,
            errors.UnsupportedGrantType,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Start or go on with a session: by password, refresh token, the code of a PKCE flow, or an ID token."""
        asked = inputs.query(request.http, "grant_type")
        if asked not in _WITHOUT_CAPTCHA:
            captcha.check(request.http)
        grant = grants.choose(asked)
        self.throttle(Bucket.TOKEN, request.http)
        body = inputs.parse(request.http, grant.input)
        return Answer(grant.exchange(body, caller=request.caller, at=clock.now()))


class LogoutView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @declares(
        query=(
            Parameter(
                "scope",
                "Which sessions of the user end: all (the default), this one, or all but this one.",
                ("global", "local", "others"),
            ),
        ),
        answers={204: None},
        refusals=(errors.UnsupportedLogoutScope,),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """End sessions; access tokens that are out go on to hold for others until they expire."""
        scope = inputs.query(request.http, "scope")
        sessions.log_out(authentication.user_of(request), scope=scope, caller=request.caller, at=clock.now())
        return NoContent()


class JwksView(Endpoint):
    @declares(answers={200: shapes.KeySet})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the public signing keys."""
        return Answer(keys.current().jwks(), cache=_PUBLISHED)


class OpenidConfigurationView(Endpoint):
    @declares(answers={200: shapes.Discovery})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the discovery document."""
        return Answer(keys.discovery(), cache=_PUBLISHED)
