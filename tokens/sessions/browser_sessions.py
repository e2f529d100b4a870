"""Binds a browser to the row of a session by Django's `request.session`, a signed cookie of the console or the pages.

The cookie holds the session's id, not its tokens, which no browser gets. The row is read at every request, so a ban, a
limit or the end of the session takes effect at once.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest
from django.middleware.csrf import rotate_token

from authsvc.db.sql import fetch_row, namespaced
from tokens.models import Session
from tokens.sessions import aal, session_limits, users
from tokens.sessions.errors import SessionExpired
from tokens.sessions.users import SignedInUser

_SESSION = "session"
_LEVEL = "level"
_COUNTER = "counter"
"""The counter of the session's refresh tokens, which no browser gets.

Each verified second factor and each new password increases it.
"""


def bind(request: HttpRequest, *, session_id: UUID) -> None:
    """Bind the browser to this session and discard everything that the cookie held before."""
    request.session.flush()
    request.session[_SESSION] = str(session_id)
    rotate_token(request)


def raise_level(request: HttpRequest) -> None:
    """Record the verified second factor in the cookie. Earlier copies of the cookie become invalid.

    One statement.
    """
    current = users.user_source.find_by_session(UUID(request.session[_SESSION]))
    request.session[_LEVEL] = aal.AAL2
    request.session[_COUNTER] = current.session.refresh_token_counter if current and current.session else None
    rotate_token(request)


def renew(request: HttpRequest) -> None:
    """Keep the session, and make earlier copies of the cookie invalid. One statement."""
    request.session[_COUNTER] = _increase_counter(UUID(request.session[_SESSION]))
    rotate_token(request)


def is_bound(request: HttpRequest) -> bool:
    """True if the cookie names a session, which may have ended."""
    return _SESSION in request.session


def find(request: HttpRequest) -> SignedInUser | None:
    """The user and session of the cookie, unchecked; None without a session. At most one statement."""
    session_id = request.session.get(_SESSION)
    return users.user_source.find_by_session(UUID(session_id)) if session_id else None


def is_valid(
    request: HttpRequest, current: SignedInUser, *, at: datetime, last_used_at: datetime | None = None
) -> bool:
    """True if the session may be used with this cookie: it is within its limits, and its user is not banned.

    A session of an operator who impersonates the user, and one at a level that the cookie has not reached, may not.
    """
    subject, session = current.user, current.session
    level = request.session.get(_LEVEL, aal.AAL1)
    # A cookie of a former version at aal2 has no counter.
    counter = request.session.get(_COUNTER, 0 if level == aal.AAL1 else None)
    if session is None or current.is_impersonated or session.aal > level:
        return False
    # The level falls again with the last factor, the counter does not.
    if counter is not None and counter != (session.refresh_token_counter or 0):
        return False
    if subject.banned_until is not None and at < subject.banned_until:
        return False
    try:
        session_limits.check_limits(session, user=subject, at=at, token_used_at=last_used_at)
    except SessionExpired:
        return False
    return True


def needs_second_factor(current: SignedInUser) -> bool:
    """True if the user has a second factor that this session has not verified yet."""
    return current.session is None or current.session.aal < aal.highest_aal(current.user)


def record_use(session_id: UUID, *, at: datetime) -> None:
    """Record the use of a browser's session, because no refresh records it. One statement."""
    Session.objects.filter(id=session_id).update(refreshed_at=at)


def _increase_counter(session_id: UUID) -> int | None:
    """Increase the counter of a browser's session, which makes earlier cookies invalid. Returns the new counter.

    None if the session has ended. One statement.
    """
    sql = f"""
        UPDATE {namespaced("sessions")} SET refresh_token_counter = COALESCE(refresh_token_counter, 0) + 1
        WHERE id = %s RETURNING refresh_token_counter
    """  # noqa: S608  (own table names)
    row = fetch_row(sql, (session_id,))
    return row[0] if row else None
