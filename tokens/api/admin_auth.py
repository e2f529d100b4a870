"""Authentication of administrators: programs with a service token, and users with an administrator role."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, cast
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from authsvc import audit, conf
from authsvc.errors import ApiError
from tokens import errors
from tokens.api import bearer_auth
from tokens.jwt import access_tokens
from tokens.sessions import aal, lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """The administrator of a request; without a user for a service token."""

    role: str
    user_id: UUID | None = None
    is_authenticated: ClassVar[bool] = True
    """Used by the permissions and throttles of DRF, like `pk`."""

    @property
    def pk(self) -> str:
        return str(self.user_id or self.role)

    @property
    def actor(self) -> audit.Administrator:
        """The actor in the audit trail."""
        return audit.Administrator(role=self.role)


def get_admin(request: Request) -> Admin:
    """The administrator of a request, after IsAdmin."""
    return cast(Admin, request.user)


def authenticate(token: str, *, at: datetime) -> Admin:
    """The administrator of a token.

    The role in the token counts; a user must also have an administrator role now. Raises the errors of a bearer
    token, SessionNoLongerValid, NotAdmin, and AdminNeedsSecondFactor without a verified second factor.
    """
    roles = conf.current().jwt.admin_roles
    claims = access_tokens.decode(token, at=at)
    user_id = None
    if claims.session_id:
        signed_in = bearer_auth.load_signed_in_user(claims)
        if signed_in.session is None:
            raise errors.SessionNotFound
        try:
            lifecycle.check_limits(signed_in.session, user=signed_in.user, at=at)
        except errors.SessionExpired:
            raise errors.SessionNoLongerValid from None
        if signed_in.user.banned_until is not None and at < signed_in.user.banned_until:
            raise errors.UserBanned
        if signed_in.session.oauth_client_id is not None or signed_in.user.role not in roles:
            raise errors.NotAdmin
        if signed_in.session.aal < aal.highest_available(signed_in.user):
            raise errors.AdminNeedsSecondFactor
        user_id = signed_in.user.id
    if claims.role not in roles:
        raise errors.NotAdmin
    return Admin(role=claims.role, user_id=user_id)


class AdminCaptchaExemption:
    """Exempts requests of administrators (`authsvc.api.captcha.CaptchaExemption`)."""

    def applies_to(self, request: HttpRequest) -> bool:
        """True if the request has a valid token of an administrator."""
        token = bearer_auth.bearer_token(request.META)
        if token is None:
            return False
        try:
            authenticate(token, at=timezone.now())
        except ApiError:
            return False
        return True
