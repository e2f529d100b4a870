"""Who may: permissions that need the token and its user only. They raise the documented error themselves."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from authsvc.api.openapi.document import ErrorTypes
from tokens import errors
from tokens.api import authentication
from tokens.api.admin_auth import Admin
from tokens.sessions.users import SignedInUser


class IsSignedIn(BasePermission):
    """A valid access token of a user who exists, is not banned, and whose session has not ended."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, SignedInUser):
            raise errors.NoAuthorization
        return True


class IsNotAnonymous(BasePermission):
    """Somebody who has said who they are; what counts is the token. To be listed behind IsSignedIn."""

    documented_errors: ClassVar[ErrorTypes] = (errors.AnonymousNotAllowed,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if authentication.get_claims(request).is_anonymous:
            raise errors.AnonymousNotAllowed
        return True


class IsAdmin(BasePermission):
    """A valid token with a role of an administrator; that of a user only while they have such a role."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.user is None:
            raise errors.NoAuthorization
        if not isinstance(request.user, Admin):
            raise errors.NotAdmin
        return True
