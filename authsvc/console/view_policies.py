"""The policies of console views: allowed networks, form size, cookies, security headers and error pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address
from typing import Any, TypeVar, cast

from django.conf import settings
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.utils.functional import SimpleLazyObject

from authsvc import conf
from authsvc.api import exception_handler
from authsvc.api.renderers import NO_STORE
from authsvc.caller import client_address
from authsvc.console import csv_export, pages
from authsvc.console.sign_in import console_session
from authsvc.db import read_replica
from authsvc.errors import BodyTooLarge

_MAX_FORM_BYTES = 1_048_576
"""As bodies of the API: a form that edits a user contains the metadata twice."""
_CHANGED_COOKIE = "operator_changed"
_CONTENT_POLICY = pages.content_policy()
_HEADERS = {
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # a stricter policy would remove the Origin of forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def console_view(view: View, *, has_cookies: bool = True) -> View:
    """Apply the policies to a view. Without cookies it has no session, messages or user, and may be cached."""

    @wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not _is_allowed(request):
            return exception_handler.error_response(Http404(), request)
        if int(request.META.get("CONTENT_LENGTH") or 0) > _MAX_FORM_BYTES:
            return exception_handler.error_response(BodyTooLarge(), request)

        def respond_with_user(request: HttpRequest) -> HttpResponse:
            request.user = SimpleLazyObject(lambda: console_session.user(request))  # type: ignore[assignment]  # an Operator
            with read_replica.permit(_may_read_replica(request)):
                return _render(request, view, *args, **kwargs)

        if has_cookies:
            middleware = SessionMiddleware(MessageMiddleware(respond_with_user))
            response = cast(HttpResponse, middleware(request))
            response.headers["Cache-Control"] = NO_STORE
            if conf.current().database.read_replica_url and _changes_data(request):
                _read_own_changes(response)
        else:
            response = _render(request, view, *args, **kwargs)
        response.headers.setdefault("Content-Security-Policy", _CONTENT_POLICY)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return cast(View, respond)


def _render(request: HttpRequest, view: Callable[..., HttpResponseBase], *args: Any, **kwargs: Any) -> HttpResponse:
    """The rendered response of a view, or an error page."""
    try:
        response = cast(HttpResponse, view(request, *args, **kwargs))
        if isinstance(response, HttpResponseNotAllowed):
            return pages.form_only_page(request, response)
        # Here, because rendering reads messages, and the middleware stores those that are unread.
        return response.render() if isinstance(response, SimpleTemplateResponse) else response
    except Exception as error:  # noqa: BLE001  (the page of an unexpected error is logged)
        return pages.error_page(request, error)


def _changes_data(request: HttpRequest) -> bool:
    return request.method != "GET" and not csv_export.is_export(request)


def _may_read_replica(request: HttpRequest) -> bool:
    return not _changes_data(request) and _CHANGED_COOKIE not in request.COOKIES


def _read_own_changes(response: HttpResponse) -> None:
    """The browser reads from the primary until replicas have its changes, on all servers."""
    response.set_cookie(
        _CHANGED_COOKIE,
        "1",
        max_age=2 * read_replica.MAX_AGE_SECONDS,
        path=settings.SESSION_COOKIE_PATH,
        secure=bool(settings.SESSION_COOKIE_SECURE),
        httponly=True,
        samesite="Strict",
    )


def _is_allowed(request: HttpRequest) -> bool:
    console = conf.current().console
    if not console.enabled:
        return False
    if not console.allowed_networks:
        return True
    address = client_address(request)
    return bool(address) and any(ip_address(address) in network for network in console.allowed_networks)
