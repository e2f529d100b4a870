"""The cookie of the hosted pages, and the session row behind it, which is read at every request.

The cookie is signed and readable: it holds the session's id, the CSRF secret and the state of unfinished steps, and no
token. It is sent with navigations from other sites (SameSite=Lax), which the OAuth server needs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from authsvc import conf
from authsvc.caller import caller_of
from tokens.sessions import browser_sessions, revocation, session_limits, users
from tokens.sessions.errors import SessionExpired
from tokens.sessions.users import SignedInUser

_MAX_AGE = timedelta(days=30)
"""Users sign in again after this time without a visit (NIST SP 800-63B-4 §2.1.3 recommends it for AAL1)."""
_USE_INTERVAL = timedelta(seconds=10)
"""Uses of a session within this time are recorded once."""
_SALT = "accounts.pages"
_CACHE_KEY = "authsvc.pages.signed_in"


class _SignedCookie(SessionStore):
    """`request.session` of the pages. The salt keeps out cookies of the console, which are signed with the same key."""

    def load(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = signing.loads(
                self.session_key or "", serializer=self.serializer, max_age=_MAX_AGE, salt=_SALT
            )
        except (signing.BadSignature, ValueError):
            self.create()
            return {}
        return content

    def _get_session_key(self) -> str:
        return signing.dumps(dict(self.items()), compress=True, salt=_SALT, serializer=self.serializer)


def cookie_name() -> str:
    """The name of the cookie.

    With the prefix, browsers accept the cookie only from this host, by TLS, for all paths (RFC 6265bis §4.1.3).
    """
    return "__Host-account_session" if conf.is_https(conf.current()) else "account_session"


def load(request: HttpRequest) -> None:
    """Set `request.session` from the cookie."""
    request.session = _SignedCookie(request.COOKIES.get(cookie_name()))


def save(request: HttpRequest, response: HttpResponse) -> None:
    """Write the cookie if it has changed. Without a session in it, it ends with the browser."""
    session, name = request.session, cookie_name()
    if session.is_empty():
        if name in request.COOKIES:
            response.delete_cookie(name, path="/", samesite="Lax")
            response.cookies[name]["secure"] = conf.is_https(conf.current())
            response.cookies[name]["httponly"] = True
    elif session.modified:
        session.save()
        response.set_cookie(
            name,
            session.session_key or "",
            max_age=_MAX_AGE if browser_sessions.is_bound(request) else None,
            path="/",
            secure=conf.is_https(conf.current()),
            httponly=True,
            samesite="Lax",
        )


def start(request: HttpRequest, *, session_id: UUID, at: datetime) -> None:
    """Bind the browser to this session. Ends the session that it had, and discards what its cookie held."""
    previous = signed_in(request)
    if previous is not None and previous.session is not None and previous.session.id != session_id:
        revocation.replace_browser_session(previous, session_id=session_id, caller=caller_of(request), at=at)
        caller_of(request).audit.session_id = session_id
    browser_sessions.bind(request, session_id=session_id)
    request.META.pop(_CACHE_KEY, None)


def step_up(request: HttpRequest) -> None:
    """Record the verified second factor in the cookie. Earlier copies of the cookie become invalid. One statement."""
    browser_sessions.raise_level(request)
    request.META.pop(_CACHE_KEY, None)


def renew(request: HttpRequest) -> None:
    """Write a new cookie for the same session. Earlier copies of the cookie become invalid. One statement."""
    browser_sessions.renew(request)
    request.META.pop(_CACHE_KEY, None)


def end(request: HttpRequest) -> None:
    """Clear the cookie. The caller ends the session row."""
    request.session.flush()
    request.META[_CACHE_KEY] = None


def signed_in(request: HttpRequest) -> SignedInUser | None:
    """The user of the cookie's session, with or without the second factor; None if the session is no longer valid.

    One statement per request, and one more that records the use of the session every ten seconds.
    """
    if _CACHE_KEY not in request.META:
        found = request.META[_CACHE_KEY] = _find(request, at=timezone.now())
        if found is not None and found.session is not None:
            caller_of(request).audit.session_id = found.session.id
            caller_of(request).audit.event_actor = users.actor_of(found.user)
    cached: SignedInUser | None = request.META[_CACHE_KEY]
    return cached


def _find(request: HttpRequest, *, at: datetime) -> SignedInUser | None:
    if not browser_sessions.is_bound(request):
        return None
    current = browser_sessions.find(request)
    if current is None or current.session is None or not _is_usable(request, current, at=at):
        request.session.flush()
        return None
    if at >= session_limits.last_used_at(current.session) + _USE_INTERVAL:
        browser_sessions.record_use(current.session.id, at=at)
        request.session.modified = True  # its age counts from the last use
    return current


def _is_usable(request: HttpRequest, current: SignedInUser, *, at: datetime) -> bool:
    assert current.session is not None  # noqa: S101  (narrowing; the caller has checked)
    if current.user.is_anonymous or current.session.oauth_client_id is not None:
        return False
    if not browser_sessions.is_valid(request, current, at=at):
        return False
    if not conf.current().sessions.single_per_user:
        return True
    try:
        with transaction.atomic():
            session_limits.check_single_session(current.session, user=current.user, at=at)
    except SessionExpired:
        return False
    return True
