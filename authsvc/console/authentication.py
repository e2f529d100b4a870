"""The console's cookie and the session row behind it, which is asked for at every request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.middleware.csrf import rotate_token

from authsvc import clock, conf
from authsvc.console.model_admin import Operator
from tokens import errors
from tokens.sessions import aal, lifecycle, users
from tokens.sessions.users import SignedInUser

LONGEST = timedelta(hours=12)
"""After this time an operator signs in again, however busy (NIST SP 800-63B-4 §2.2.3 asks for 24 hours at most)."""
_SESSION = "session"
_SEEN_AT = "seen_at"
_LEVEL = "level"
_FOUND = "authsvc.console.sign_in"


def begin(request: HttpRequest, *, session_id: UUID, at: datetime) -> None:
    """From here on the browser acts in this session. Nothing that the cookie held before is kept."""
    request.session.flush()
    request.session[_SESSION] = str(session_id)
    request.session[_SEEN_AT] = int(at.timestamp())
    rotate_token(request)


def step_up(request: HttpRequest) -> None:
    """The second factor was shown in this browser; a copy of its cookie from before is worth nothing from here on."""
    request.session[_LEVEL] = aal.AAL2
    rotate_token(request)
    request.META.pop(_FOUND, None)


def keep(request: HttpRequest, name: str, text: str) -> None:
    """Remember something of this sign-in that is no secret: the browser can read it, and cannot change it."""
    request.session[name] = text


def kept(request: HttpRequest, name: str) -> str:
    """What `keep` has kept, `""` when there is nothing."""
    return str(request.session.get(name, ""))


def end(request: HttpRequest) -> None:
    """Forget the cookie; the session row is the caller's business."""
    request.session.flush()
    request.META[_FOUND] = None


def signed_in(request: HttpRequest) -> SignedInUser | None:
    """The operator's sign-in behind the cookie, be it complete or not; None when there is none any more.

    One statement for each request, so that a ban, another role or the end of the session counts at the next click.
    """
    if _FOUND not in request.META:
        request.META[_FOUND] = _find(request, at=clock.now())
    found: SignedInUser | None = request.META[_FOUND]
    return found


def needs_second_step(found: SignedInUser) -> bool:
    """Whether the user has a second factor that this session has not shown yet."""
    return found.session is None or found.session.aal < aal.highest_available(found.user)


def user(request: HttpRequest) -> Operator | AnonymousUser:
    """Who may see pages: an operator whose sign-in is complete."""
    found = signed_in(request)
    if found is None or found.session is None or needs_second_step(found):
        return AnonymousUser()
    user = found.user
    return Operator(id=user.id, session_id=found.session.id, role=user.role, name=user.email or f"+{user.phone}")


def _find(request: HttpRequest, *, at: datetime) -> SignedInUser | None:
    known = request.session.get(_SESSION)
    if known is None:
        return None
    found = users.user_source.get().find_by_session(UUID(known))
    seen_at = datetime.fromtimestamp(request.session.get(_SEEN_AT, 0), UTC)
    level = request.session.get(_LEVEL, aal.AAL1)
    if found is None or not _stands(found, level=level, seen_at=seen_at, at=at):
        request.session.flush()
        return None
    request.session[_SEEN_AT] = int(at.timestamp())
    return found


def _stands(found: SignedInUser, *, level: str, seen_at: datetime, at: datetime) -> bool:
    user, session = found.user, found.session
    if session is None or session.aal > level or user.role not in conf.current().jwt.admin_roles:
        return False
    if user.banned_until is not None and at < user.banned_until:
        return False
    try:
        lifecycle.check_limits(session, user=user, at=at, token_used_at=seen_at)
    except errors.SessionExpired:
        return False
    return True
