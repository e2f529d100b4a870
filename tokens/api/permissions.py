"""DRF permissions that depend on the token and its user. They raise the documented errors."""

from __future__ import annotations

from typing import ClassVar, Literal, NoReturn

from django.utils import timezone
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from authsvc import conf
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.views import Endpoint
from authsvc.caller import caller_of
from tokens.api import authentication, errors
from tokens.api.authentication import Admin
from tokens.sessions import impersonation
from tokens.sessions.errors import ImpersonationNotAllowed
from tokens.sessions.users import SignedInUser


class IsSignedIn(BasePermission):
    """Requires a valid access token of an existing, unbanned user with an unexpired session.

    The token of an OAuth client is accepted for the methods that the view permits (`client_methods`), and that of an
    operator who impersonates the user for those in `impersonated_methods`.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, SignedInUser):
            raise errors.NoAuthorization
        if is_restricted(request.user) and not _permits(view, "client_methods", request):
            raise errors.ClientTokenNotAllowed
        if request.user.is_impersonated and not _permits(view, "impersonated_methods", request):
            _refuse_impersonation(request, request.user)
        return True

    @staticmethod
    def errors_of_method(view: type[Endpoint], method: str) -> ErrorTypes:
        """Documented errors that depend on the method."""
        client_errors = () if method in view.client_methods else (errors.ClientTokenNotAllowed,)
        return client_errors if method in view.impersonated_methods else (*client_errors, ImpersonationNotAllowed)


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


def _permits(view: APIView, methods: Literal["client_methods", "impersonated_methods"], request: Request) -> bool:
    return isinstance(view, Endpoint) and (request.method or "").lower() in getattr(view, methods)


def _refuse_impersonation(request: Request, signed_in: SignedInUser) -> NoReturn:
    """Record and raise ImpersonationNotAllowed. The record has the route, because a client chooses the path."""
    match = request._request.resolver_match
    route = f"{request.method} {match.route if match else ''}"
    impersonation.refuse(signed_in, request=route, caller=caller_of(request._request), at=timezone.now())
