"""The language that a user has chosen for pages: a cookie of the browser, or the account."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest, HttpResponse

from accounts.pages import browser_session
from authsvc import conf, languages
from authsvc.db.fields import parse_json

_AGE = timedelta(days=365)


def _cookie_name() -> str:
    """The name of the cookie that stores the chosen language."""
    return "__Host-account_language" if conf.is_https(conf.current()) else "account_language"


def remember(response: HttpResponse, code: str) -> None:
    """Store the choice of the user in the browser; empty: the language of the browser."""
    response.set_cookie(
        _cookie_name(),
        code,
        max_age=_AGE if code else 0,
        path="/",
        secure=conf.is_https(conf.current()),
        httponly=True,
        samesite="Lax",
    )


def stored(request: HttpRequest) -> str:
    """The language that the user has chosen in this browser; empty without a choice."""
    code = request.COOKIES.get(_cookie_name(), "")
    return code if code in languages.offered() else ""


def of_request(request: HttpRequest) -> str:
    """The language chosen in this browser, else the best of Accept-Language, else the default."""
    return stored(request) or languages.of_request()


def of_user(request: HttpRequest) -> str:
    """As `of_request`, with the language of the signed-in user before Accept-Language."""
    current = None
    if len(languages.offered()) > 1 and not stored(request):
        current = browser_session.signed_in(request)
    of_account = languages.of_user(parse_json(current.user.user_metadata_json)) if current is not None else ""
    return of_account or of_request(request)
