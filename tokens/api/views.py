"""The token endpoint, logout, JWKS and discovery metadata."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from authsvc.api import captcha, parsing, throttling
from authsvc.api.openapi.document import BodyChoice, Parameter, document
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import RequestRateExceeded
from tokens.api import authentication, errors, grants, schemas
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn, is_restricted
from tokens.jwt import signing_keys
from tokens.sessions import revocation
from tokens.sessions.errors import ImpersonationNotAllowed, UnsupportedLogoutScope

_CACHE_CONTROL = "public, max-age=600"
# The refresh token or code was issued after a captcha, or another issuer has authenticated the user.
_WITHOUT_CAPTCHA = frozenset({"refresh_token", "pkce", "id_token"})


class TokenView(Endpoint):
    @document(
        choice=BodyChoice(parameter="grant_type", variants=grants.registered),
        responses={},
        errors=(
            RequestRateExceeded,
            captcha.CaptchaFailed,
            captcha.CaptchaUnavailable,
            errors.UnsupportedGrantType,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Start or refresh a session with a password, refresh token, code of a PKCE flow, ID token or wallet."""
        grant_type = parsing.query_parameter(request, "grant_type")
        if grant_type not in _WITHOUT_CAPTCHA:
            self.check_captcha(request)
        grant = grants.choose(grant_type)
        throttling.check(Bucket.WEB3 if grant_type == "web3" else Bucket.TOKEN, request)
        body = parsing.parse_body(request, grant.input)
        return Response(grant.exchange(body, caller=request.caller, at=timezone.now()))


class LogoutView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)
    client_methods = frozenset({"post"})
    impersonated_methods = frozenset({"post"})

    @document(
        query=(
            Parameter(
                "scope",
                "The sessions to revoke: all (the default), this one, or all except this one.",
                ("global", "local", "others"),
            ),
        ),
        responses={204: None},
        errors=(UnsupportedLogoutScope, ImpersonationNotAllowed, errors.ClientTokenNotAllowed),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Revoke sessions. Other services accept issued access tokens until they expire.

        An operator who views the application as the user ends only that session, for every scope except `others`.
        """
        scope = parsing.query_parameter(request, "scope")
        signed_in = authentication.get_signed_in_user(request)
        if scope != "local" and is_restricted(signed_in):
            raise errors.ClientTokenNotAllowed
        revocation.sign_out(signed_in, scope=scope, caller=request.caller, at=timezone.now())
        return Response(status=204)


class JwksView(Endpoint):
    @document(responses={200: schemas.KeySet})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the public signing keys."""
        return Response(signing_keys.current().jwks(), headers={"Cache-Control": _CACHE_CONTROL})


class OpenidConfigurationView(Endpoint):
    @document(responses={200: schemas.Discovery})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the discovery document."""
        return Response(signing_keys.discovery(), headers={"Cache-Control": _CACHE_CONTROL})
