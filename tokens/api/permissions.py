"""DRF permissions that depend on the token and its user. They raise the documented errors."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from authsvc import conf
from authsvc.api.openapi.document import ErrorTypes
from tokens.api import authentication, errors
from tokens.api.authentication import Admin
from tokens.sessions.users import SignedInUser


class IsSignedIn(BasePermission):
    """Requires a valid access token of an existing, unbanned user with an unexpired session.

    The token of an OAuth client is accepted for the methods in `client_methods` of the view only.
    """

    documented_errors: ClassVar[ErrorTypes] = (errors.ClientTokenNotAllowed,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, SignedInUser):
            raise errors.NoAuthorization
        if is_restricted(request.user) and request.method not in getattr(view, "client_methods", ()):
            raise errors.ClientTokenNotAllowed
        return True


def is_restricted(signed_in: SignedInUser) -> bool:
    """True if an OAuth client uses the session, and the settings restrict its tokens.

    The row of the session decides, because a claim of the token could be missing. No statement.
    """
    session = signed_in.session
    if session is None or session.oauth_client_id is None:
        return False
    return conf.current().oauth_server.restrict_client_tokens


class IsNotAnonymous(BasePermission):
    """Rejects tokens of anonymous users. Listed after IsSignedIn."""

    documented_errors: ClassVar[ErrorTypes] = (errors.AnonymousNotAllowed,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if authentication.get_claims(request).is_anonymous:
            raise errors.AnonymousNotAllowed
        return True


class IsAdmin(BasePermission):
    """Requires a valid token of an administrator."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.user is None:
            raise errors.NoAuthorization
        if not isinstance(request.user, Admin):
            raise errors.NotAdmin
        return True
