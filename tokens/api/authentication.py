"""The two bearer checks: of a signed-in user, and of an administrator."""

from __future__ import annotations

from typing import ClassVar, cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from authsvc import clock, conf
from authsvc.api.openapi.document import ErrorTypes
from tokens import errors
from tokens.api import admin_auth, bearer_auth
from tokens.api.admin_auth import Admin
from tokens.jwt.access_tokens import Claims
from tokens.sessions.users import SignedInUser


class BearerAuthentication(BaseAuthentication):
    """Sets `request.user` to a SignedIn and `request.auth` to the Claims of the token.

    One statement; a signature seen before costs none of its arithmetic again. Raises the errors of a bearer token.
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
        presented = bearer_auth.bearer_token(request.META)
        if presented is None:
            return None
        found = bearer_auth.authenticate(presented, at=clock.now())
        request.META["authsvc.user_id"] = str(found[0].user.id)
        return found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AdminAuthentication(BaseAuthentication):
    """Sets `request.user` to an Admin.

    No statement for the token of a service, one for a user's. Raises the errors of `admins.authenticate`.
    """

    scheme: ClassVar[str] = "admin"
    documented_errors: ClassVar[ErrorTypes] = (
        *BearerAuthentication.documented_errors,
        errors.NotAdmin,
        errors.AdminNeedsSecondFactor,
        errors.SessionNoLongerValid,
    )

    def authenticate(self, request: Request) -> tuple[Admin, None] | None:
        presented = bearer_auth.bearer_token(request.META)
        if presented is None:
            return None
        admin = admin_auth.authenticate(presented, at=clock.now())
        if admin.user_id is not None:
            request.META["authsvc.user_id"] = str(admin.user_id)
        return admin, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def get_signed_in_user(request: Request) -> SignedInUser:
    """Who makes a request that IsSignedIn has let through."""
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
