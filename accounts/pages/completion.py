"""The end of a sign-in: binds the browser to the session, and finds the next step."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import reverse

from accounts.pages import browser_session, destinations
from accounts.pages.page import HostedPage
from tokens.sessions import browser_sessions, refresh_tokens
from tokens.sessions.lifecycle import TokenPair


def complete_sign_in(page: HostedPage, tokens: TokenPair, *, path: str = "") -> HttpResponse:
    """Bind the browser to the session of these tokens, which are discarded, and go to the next step.

    `path` is the page after the sign-in, instead of `next`.
    """
    session_id = refresh_tokens.decode(tokens.refresh_token).session_id
    browser_session.start(page.request, session_id=session_id, at=page.at)
    return page.redirect(next_step(page, path=path))


def next_step(page: HostedPage, *, path: str = "") -> str:
    """The second factor if the session needs it, else the page after the sign-in."""
    path = path or destinations.after_sign_in(page.request)
    if browser_sessions.needs_second_factor(page.current):
        return destinations.with_next(reverse("pages:second_factor"), path)
    return path
