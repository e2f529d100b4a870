"""Whose access token is that of an administrator: a service's own, or that of a user who has such a role still."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.http import HttpRequest

from authsvc.core import clock
from authsvc.core.errors import ApiError
from tokens import access_tokens, authentication
from tokens.services import sessions


class AdminExemption:
    """The CAPTCHA_EXEMPTION entry: administrators need not prove to be people."""

    def applies_to(self, request: HttpRequest) -> bool:
        """Whether the request has an administrator's token; one that is refused, for whatever reason, is none."""
        presented = authentication.bearer_token(request.META)
        if presented is None:
            return False
        try:
            return _is_admin(presented, at=clock.now())
        except ApiError:
            return False


def _is_admin(token: str, *, at: datetime) -> bool:
    """Raises the errors of a bearer token."""
    roles = settings.AUTH.jwt.admin_roles
    claims = access_tokens.read(token, at=at)
    if claims.role not in roles:
        return False
    if not claims.session_id:
        return True  # a service's token, which no user stands behind
    signed_in = authentication.find(claims, at=at)
    if signed_in.session is None or signed_in.session.oauth_client_id is not None:
        return False
    sessions.check_limits(signed_in.session, subject=signed_in.subject, at=at)
    return signed_in.subject.role in roles
