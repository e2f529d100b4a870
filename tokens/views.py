"""The token endpoint, logout, and what the service publishes about its keys."""

from __future__ import annotations

from django.http import HttpResponse

from authsvc.core import clock
from authsvc.core.web import captcha, inputs
from authsvc.core.web.renderers import Answer, NoContent
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import authentication, grants, keys
from tokens.authentication import BearerAuthentication
from tokens.permissions import IsSignedIn
from tokens.services import sessions

_PUBLISHED = "public, max-age=600"
# They present what somebody was given who has passed a captcha, or what another service vouches for.
_WITHOUT_CAPTCHA = frozenset({"refresh_token", "pkce", "id_token"})


class TokenView(Endpoint):
    def post(self, request: ServiceRequest) -> HttpResponse:
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

    def post(self, request: ServiceRequest) -> HttpResponse:
        scope = inputs.query(request.http, "scope")
        sessions.log_out(authentication.user_of(request), scope=scope, caller=request.caller, at=clock.now())
        return NoContent()


class JwksView(Endpoint):
    def get(self, request: ServiceRequest) -> HttpResponse:
        return Answer(keys.current().jwks(), cache=_PUBLISHED)


class OpenidConfigurationView(Endpoint):
    def get(self, request: ServiceRequest) -> HttpResponse:
        return Answer(keys.discovery(), cache=_PUBLISHED)
