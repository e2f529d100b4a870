"""GET /user."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse

from authsvc.core.web.renderers import Answer
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import authentication, errors, subjects
from tokens.access_tokens import Claims
from tokens.authentication import BearerAuthentication
from tokens.permissions import IsSignedIn


class UserView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    def get(self, request: ServiceRequest) -> HttpResponse:
        _check_audience(authentication.claims_of(request), asked=request.META.get("HTTP_X_JWT_AUD", ""))
        return Answer(subjects.current().present(authentication.user_of(request).subject))


def _check_audience(claims: Claims, *, asked: str) -> None:
    """The audience the client asks for, or the one its token stands for, must be the token's own."""
    if not asked:
        config = settings.AUTH.jwt
        asked = config.aud if not claims.aud or claims.role in config.admin_roles else claims.aud[0]
    if not claims.aud or claims.aud[0] != asked:
        raise errors.AudienceMismatch
