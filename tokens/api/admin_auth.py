"""Who is an administrator: a service with a token of its own, or a user who has such a role still."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, cast
from uuid import UUID

from django.http import HttpRequest
from rest_framework.request import Request

from authsvc import audit, clock, conf
from authsvc.errors import ApiError
from tokens import errors
from tokens.api import bearer_auth
from tokens.jwt import access_tokens
from tokens.sessions import aal, lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """Who makes a request of administration; no user stands behind the token of a service."""

    role: str
    user_id: UUID | None = None
    is_authenticated: ClassVar[bool] = True
    """For the permissions and throttles of DRF, as is `pk`."""

    @property
    def pk(self) -> str:
        return str(self.user_id or self.role)

    @property
    def actor(self) -> audit.Administrator:
        """How the audit trail knows them."""
        return audit.Administrator(role=self.role)


def get_admin(request: Request) -> Admin:
    """Who makes a request that IsAdmin has let through."""
    return cast(Admin, request.user)


def authenticate(token: str, *, at: datetime) -> Admin:
    """The administrator whose token this is.

    The role counts that the token states; a user's must be one of an administrator at present as well. Raises the
    errors of a bearer token, SessionNoLongerValid, NotAdmin, and AdminNeedsSecondFactor where one is not shown.
    """
    roles = conf.current().jwt.admin_roles
    claims = access_tokens.decode(token, at=at)
    user_id = None
    if claims.session_id:
        found = bearer_auth.load_signed_in_user(claims)
        if found.session is None:
            raise errors.SessionNotFound
        try:
            lifecycle.check_limits(found.session, user=found.user, at=at)
        except errors.SessionExpired:
            raise errors.SessionNoLongerValid from None
        if found.user.banned_until is not None and at < found.user.banned_until:
            raise errors.UserBanned
        if found.session.oauth_client_id is not None or found.user.role not in roles:
            raise errors.NotAdmin
        if found.session.aal < aal.highest_available(found.user):
            raise errors.AdminNeedsSecondFactor
        user_id = found.user.id
    if claims.role not in roles:
        raise errors.NotAdmin
    return Admin(role=claims.role, user_id=user_id)


class AdminCaptchaExemption:
    """Exempts requests of administrators (`authsvc.api.captcha.CaptchaExemption`)."""

    def applies_to(self, request: HttpRequest) -> bool:
        """Whether the request has an administrator's token; one that is refused, for whatever reason, is none."""
        presented = bearer_auth.bearer_token(request.META)
        if presented is None:
            return False
        try:
            authenticate(presented, at=clock.now())
        except ApiError:
            return False
        return True
