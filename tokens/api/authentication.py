"""Authentication of API requests by bearer token (RFC 6750): of signed-in users, and of administrators.

An administrator is a user with an administrator role, or a program with a service token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, cast
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from authsvc import audit, conf, events
from authsvc.api.openapi.document import ErrorTypes
from authsvc.caller import Caller, caller_of
from authsvc.errors import ApiError
from authsvc.events import ActorType
from tokens.api import errors
from tokens.jwt import access_tokens
from tokens.jwt.access_tokens import BadJwt, Claims
from tokens.sessions import aal, impersonation, session_limits, users
from tokens.sessions import errors as session_errors
from tokens.sessions.users import SignedInUser

_MAX_SUBJECT_LENGTH = 255
_BEARER = re.compile(r"bearer (\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """The administrator of a request; `user_id` is None for a service token."""

    role: str
    user_id: UUID | None = None
    address: str = ""
    """Email address or phone of the user."""
    subject: str = ""
    """`sub` of a service token."""
    session_id: UUID | None = None
    is_authenticated: ClassVar[bool] = True
    """Used by the permissions and throttles of DRF, like `pk`."""

    @property
    def pk(self) -> str:
        return str(self.user_id or self.role)

    @property
    def actor(self) -> audit.Administrator:
        """The actor in the audit trail."""
        return audit.Administrator(role=self.role, user_id=self.user_id, address=self.address, subject=self.subject)


class BearerAuthentication(BaseAuthentication):
    """Sets `request.user` to a SignedInUser and `request.auth` to the Claims of the token.

    One statement, and one more for an impersonated session; verified signatures are cached. Raises the errors of a
    bearer token.
    """

    scheme: ClassVar[str] = "bearer"
    user_not_found: ClassVar[type[ApiError]] = session_errors.UserNotFoundForToken
    """The error for a user who is deleted during the request; `exception_handler` raises it."""
    documented_errors: ClassVar[ErrorTypes] = (
        errors.NoAuthorization,
        BadJwt,
        errors.IdTokenNotAllowed,
        errors.ClientActsForNoUser,
        errors.MissingSubject,
        errors.SubjectNotAUuid,
        errors.SessionIdNotAUuid,
        session_errors.UserNotFoundForToken,
        session_errors.SessionNotFound,
        session_errors.UserBanned,
    )

    def authenticate(self, request: Request) -> tuple[SignedInUser, Claims] | None:
        token = self.find_token(request)
        if token is None:
            return None
        signed_in, claims = authenticate_user(token, caller=caller_of(request._request), at=timezone.now())
        request.META["authsvc.user_id"] = str(signed_in.user.id)
        caller_of(request._request).audit.event_actor = users.actor_of(signed_in.user)
        if signed_in.session is not None:
            caller_of(request._request).audit.session_id = signed_in.session.id
        return signed_in, claims

    def find_token(self, request: Request) -> str | None:
        """The token of a request; None without one."""
        return bearer_token(request.META)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AdminAuthentication(BaseAuthentication):
    """Sets `request.user` to an Admin.

    No statement for a service token, one for a user's token. Raises the errors of `authenticate_admin`.
    """

    scheme: ClassVar[str] = "admin"
    documented_errors: ClassVar[ErrorTypes] = (
        *BearerAuthentication.documented_errors,
        errors.NotAdmin,
        errors.AdminNeedsSecondFactor,
        errors.SessionNoLongerValid,
    )

    def authenticate(self, request: Request) -> tuple[Admin, None] | None:
        token = bearer_token(request.META)
        if token is None:
            return None
        admin = authenticate_admin(token, at=timezone.now())
        actor = events.EventActor(type=ActorType.ADMIN, id=admin.user_id, role=admin.role)
        caller_of(request._request).audit.event_actor = actor
        if admin.user_id is not None:
            request.META["authsvc.user_id"] = str(admin.user_id)
            caller_of(request._request).audit.session_id = admin.session_id
        return admin, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def get_signed_in_user(request: Request) -> SignedInUser:
    """The user and session of a request, after IsSignedIn."""
    return cast(SignedInUser, request.user)


def get_claims(request: Request) -> Claims:
    """The claims of the access token of a request, after IsSignedIn."""
    return cast(Claims, request.auth)


def get_admin(request: Request) -> Admin:
    """The administrator of a request, after IsAdmin."""
    return cast(Admin, request.user)


def has_requested_audience(request: Request) -> bool:
    """The token is for the audience in `X-JWT-AUD`; without the header, for the token's default audience."""
    claims, audience = get_claims(request), request.META.get("HTTP_X_JWT_AUD", "")
    if not audience:
        config = conf.current().jwt
        audience = config.aud if not claims.aud or claims.role in config.admin_roles else claims.aud[0]
    return bool(claims.aud) and claims.aud[0] == audience


class AdminCaptchaExemption:
    """Exempts requests of administrators (`authsvc.api.captcha.CaptchaExemption`)."""

    def applies_to(self, request: HttpRequest) -> bool:
        """True if the request has a valid token of an administrator."""
        token = bearer_token(request.META)
        if token is None:
            return False
        try:
            authenticate_admin(token, at=timezone.now())
        except ApiError:
            return False
        return True


def bearer_token(meta: Mapping[str, Any]) -> str | None:
    """The token in the Authorization header; `meta` is the `META` of a request."""
    match = _BEARER.fullmatch(meta.get("HTTP_AUTHORIZATION", ""))
    return match[1] if match else None


def authenticate_user(token: str, *, caller: Caller, at: datetime) -> tuple[SignedInUser, Claims]:
    """Verify an access token, its user and its session. Raises the errors of a bearer token.

    One statement, and one more for an impersonated session.
    """
    claims = _decode(token, at=at)
    signed_in = _load_signed_in_user(claims)
    if signed_in.user.banned_until is not None and at < signed_in.user.banned_until:
        raise session_errors.UserBanned
    if not impersonation.is_active(signed_in, caller=caller, at=at):
        raise session_errors.SessionNotFound
    return signed_in, claims


def refuse_impersonated_caller(caller: Caller, *, request: str, at: datetime) -> None:
    """Raises ImpersonationNotAllowed if a request to a public endpoint has the token of an impersonated session.

    `request`: the method and route. Tokens that are not valid are ignored, as by every public endpoint.
    """
    token = bearer_token({"HTTP_AUTHORIZATION": caller.authorization})
    if token is None:
        return
    try:
        if "act" not in access_tokens.decode(token, at=at).raw:
            return
        signed_in, _claims = authenticate_user(token, caller=caller, at=at)
    except ApiError:
        return
    if signed_in.is_impersonated:
        caller.audit.session_id = signed_in.session.id if signed_in.session else None
        impersonation.refuse(signed_in, request=request, caller=caller, at=at)


def authenticate_admin(token: str, *, at: datetime) -> Admin:
    """The administrator of a token.

    The role in the token counts; a user must also have an administrator role now. Raises the errors of a bearer
    token, SessionNoLongerValid, NotAdmin, and AdminNeedsSecondFactor without a verified second factor.
    """
    roles = conf.current().jwt.admin_roles
    claims = _decode(token, at=at)
    admin = Admin(role=claims.role, subject=claims.sub[:_MAX_SUBJECT_LENGTH])
    if claims.session_id:
        signed_in = _load_signed_in_user(claims)
        if signed_in.session is None:
            raise session_errors.SessionNotFound
        try:
            session_limits.check_limits(signed_in.session, user=signed_in.user, at=at)
        except session_errors.SessionExpired:
            raise errors.SessionNoLongerValid from None
        if signed_in.user.banned_until is not None and at < signed_in.user.banned_until:
            raise session_errors.UserBanned
        is_delegated = signed_in.session.oauth_client_id is not None or signed_in.is_impersonated
        if is_delegated or signed_in.user.role not in roles:
            raise errors.NotAdmin
        if signed_in.session.aal < aal.highest_aal(signed_in.user):
            raise errors.AdminNeedsSecondFactor
        user = signed_in.user
        admin = Admin(
            role=claims.role,
            user_id=user.id,
            address=user.email or f"+{user.phone}",
            session_id=signed_in.session.id,
        )
    if claims.role not in roles:
        raise errors.NotAdmin
    return admin


def _decode(token: str, *, at: datetime) -> Claims:
    """The claims of a user's access token, or of a service token.

    Raises BadJwt, and for other tokens with the same key IdTokenNotAllowed or ClientActsForNoUser.
    """
    claims = access_tokens.decode(token, at=at)
    if claims.session_id is None and "client_id" in claims.raw:
        raise errors.ClientActsForNoUser if claims.raw["client_id"] == claims.sub else errors.IdTokenNotAllowed
    return claims


def _load_signed_in_user(claims: Claims) -> SignedInUser:
    """Read the user and session of the claims, without checking for a ban. One statement.

    Raises MissingSubject, SubjectNotAUuid, UserNotFoundForToken, SessionIdNotAUuid or SessionNotFound.
    """
    if not claims.sub:
        raise errors.MissingSubject
    user_id = _uuid(claims.sub)
    if user_id is None:
        raise errors.SubjectNotAUuid
    session_id = _uuid(claims.session_id) if claims.session_id else None
    has_session = bool(claims.session_id)
    signed_in = users.user_source.find_signed_in_user(user_id=user_id, session_id=session_id)
    if signed_in is None:
        raise session_errors.UserNotFoundForToken
    if has_session and session_id is None:
        raise errors.SessionIdNotAUuid
    if has_session and signed_in.session is None:
        raise session_errors.SessionNotFound
    if signed_in.user.deleted_at is not None:
        raise session_errors.UserNotFoundForToken
    return signed_in


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
