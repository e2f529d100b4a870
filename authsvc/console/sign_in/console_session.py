"""The console's cookie and the session row behind it, which is read at every request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import timezone

from authsvc import conf, operator_access
from authsvc.caller import caller_of
from authsvc.console.operators import Operator
from authsvc.events import ActorType, EventActor
from tokens.sessions import aal, browser_sessions
from tokens.sessions.users import SignedInUser

MAX_AGE = timedelta(hours=12)
"""Operators sign in again after this time (NIST SP 800-63B-4 §2.2.3 requires at most 24 hours)."""
NEXT = "next"
"""Name of the cookie's value with the page to which the enrolment of a required factor leads."""
_SEEN_AT = "seen_at"
_CACHE_KEY = "authsvc.console.signed_in"


def start(request: HttpRequest, *, session_id: UUID, at: datetime) -> None:
    """Bind the browser to this session and discard everything that the cookie held before."""
    browser_sessions.bind(request, session_id=session_id)
    request.session[_SEEN_AT] = int(at.timestamp())


def step_up(request: HttpRequest) -> None:
    """Record the verified second factor in the cookie. Earlier copies of the cookie become invalid.

    One statement.
    """
    browser_sessions.raise_level(request)
    request.META.pop(_CACHE_KEY, None)


def set_value(request: HttpRequest, name: str, text: str) -> None:
    """Store a value that is not secret: the browser can read it but not change it."""
    request.session[name] = text


def get_value(request: HttpRequest, name: str) -> str:
    """The value stored by `set_value`, or an empty string."""
    return str(request.session.get(name, ""))


def get_id(request: HttpRequest, name: str) -> UUID:
    """The ID stored by `set_value`, or the nil UUID, which no row has."""
    return UUID(get_value(request, name) or "0" * 32)


def end(request: HttpRequest) -> None:
    """Clear the cookie. The caller ends the session row."""
    request.session.flush()
    request.META[_CACHE_KEY] = None


def signed_in(request: HttpRequest) -> SignedInUser | None:
    """The operator's sign-in behind the cookie, with or without its second factor; None if it is no longer valid.

    One statement per request, so that a ban, a role change or the end of the session takes effect at once.
    """
    if _CACHE_KEY not in request.META:
        found = request.META[_CACHE_KEY] = _find(request, at=timezone.now())
        if found is not None and found.session is not None:
            caller_of(request).audit.session_id = found.session.id
            actor = EventActor(type=ActorType.OPERATOR, id=found.user.id, role=found.user.role)
            caller_of(request).audit.event_actor = actor
    cached: SignedInUser | None = request.META[_CACHE_KEY]
    return cached


def needs_enrolment(current: SignedInUser) -> bool:
    """True if the console requires a second factor and the user has none."""
    return conf.current().console.second_factor_required and not current.user.has_verified_factor


def is_recovering(current: SignedInUser) -> bool:
    """True if a recovery link has started the session, which can only set a new password."""
    return aal.is_recovery(entry.method for entry in current.amr)


def next_step(current: SignedInUser) -> str:
    """The route of the step that the sign-in still needs; empty if it is complete."""
    if browser_sessions.needs_second_factor(current):
        return "admin:second_step"
    if is_recovering(current):
        return "admin:new_password"
    return "admin:account" if needs_enrolment(current) else ""


def user(request: HttpRequest) -> Operator | AnonymousUser:
    """The operator if the sign-in is complete, else an anonymous user."""
    current = signed_in(request)
    if current is None or current.session is None or next_step(current):
        return AnonymousUser()
    subject = current.user
    access = operator_access.access_of(subject.role)
    if access is None:
        return AnonymousUser()
    return Operator(
        id=subject.id,
        session_id=current.session.id,
        role=subject.role,
        access=access,
        name=subject.email or f"+{subject.phone}",
    )


def _find(request: HttpRequest, *, at: datetime) -> SignedInUser | None:
    if not browser_sessions.is_bound(request):
        return None
    current = browser_sessions.find(request)
    seen_at = datetime.fromtimestamp(request.session.get(_SEEN_AT, 0), UTC)
    if (
        current is None
        or operator_access.access_of(current.user.role) is None
        or not browser_sessions.is_valid(request, current, at=at, last_used_at=seen_at)
    ):
        request.session.flush()
        return None
    request.session[_SEEN_AT] = int(at.timestamp())
    return current
