"""DRF authentication classes for signed-in users and for administrators."""

from __future__ import annotations

from typing import ClassVar, cast

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from authsvc import conf
from authsvc.api.openapi.document import ErrorTypes
from tokens import errors
from tokens.api import admin_auth, bearer_auth
from tokens.api.admin_auth import Admin
from tokens.jwt.access_tokens import Claims
from tokens.sessions.users import SignedInUser


class BearerAuthentication(BaseAuthentication):
    """Sets `request.user` to a SignedInUser and `request.auth` to the Claims of the token.

    One statement; verified signatures are cached. Raises the errors of a bearer token.
    """

    scheme: ClassVar[str] = "bearer"
    documented_errors: ClassVar[ErrorTypes] = (
        errors.NoAuthorization,
        errors.BadJwt,
        errors.MissingSubject,
        errors.SubjectNotAUuid,
        errors.SessionIdNotAUuid,
        errors.UserNotFoundForToken,
        errors.SessionNotFound,
        errors.UserBanned,
    )

    def authenticate(self, request: Request) -> tuple[SignedInUser, Claims] | None:
        token = bearer_auth.bearer_token(request.META)
        if token is None:
            return None
        signed_in, claims = bearer_auth.authenticate(token, at=timezone.now())
        request.META["authsvc.user_id"] = str(signed_in.user.id)
        return signed_in, claims

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AdminAuthentication(BaseAuthentication):
    """Sets `request.user` to an Admin.

    No statement for a service token, one for a user's token. Raises the errors of `admin_auth.authenticate`.
    """

    scheme: ClassVar[str] = "admin"
    documented_errors: ClassVar[ErrorTypes] = (
        *BearerAuthentication.documented_errors,
        errors.NotAdmin,
        errors.AdminNeedsSecondFactor,
        errors.SessionNoLongerValid,
    )

    def authenticate(self, request: Request) -> tuple[Admin, None] | None:
        token = bearer_auth.bearer_token(request.META)
        if token is None:
            return None
        admin = admin_auth.authenticate(token, at=timezone.now())
        if admin.user_id is not None:
            request.META["authsvc.user_id"] = str(admin.user_id)
        return admin, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def get_signed_in_user(request: Request) -> SignedInUser:
    """The user and session of a request, after IsSignedIn."""
    return cast(SignedInUser, request.user)


def get_claims(request: Request) -> Claims:
    return cast(Claims, request.auth)


def has_requested_audience(request: Request) -> bool:
    """The token is for the audience in `X-JWT-AUD`; without the header, for the token's default audience."""
    claims, audience = get_claims(request), request.META.get("HTTP_X_JWT_AUD", "")
    if not audience:
        config = conf.current().jwt
        audience = config.aud if not claims.aud or claims.role in config.admin_roles else claims.aud[0]
    return bool(claims.aud) and claims.aud[0] == audience
