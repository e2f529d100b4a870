"""Console requests: allowed networks, cookies, security headers. API requests pass through."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import cast

from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from authsvc import conf
from authsvc.api import exception_handler
from authsvc.api.renderers import NO_STORE
from authsvc.caller import client_address
from authsvc.console import pages, static_files
from authsvc.console.sign_in import console_session
from authsvc.errors import BodyTooLarge

_ROOT = "/operator/"
_MAX_FORM_BYTES = 262_144
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # a stricter policy would remove the Origin of forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Respond = Callable[[HttpRequest], HttpResponse]


class ConsoleMiddleware:
    def __init__(self, get_response: Respond) -> None:
        self._get_response = get_response
        self._respond_with_cookies = cast(Respond, SessionMiddleware(MessageMiddleware(_with_user(get_response))))

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not _is_console(request):
            return self._get_response(request)
        if not _is_allowed(request):
            return exception_handler.error_response(Http404(), request)
        if int(request.META.get("CONTENT_LENGTH") or 0) > _MAX_FORM_BYTES:
            return exception_handler.error_response(BodyTooLarge(), request)
        is_file = request.path_info.startswith(static_files.URL)
        response = (self._get_response if is_file else self._respond_with_cookies)(request)
        for name, value in _HEADERS.items():
            response.headers[name] = value
        if not is_file:
            response.headers["Cache-Control"] = NO_STORE
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return pages.error_page(request, exception) if _is_console(request) else None


def _is_console(request: HttpRequest) -> bool:
    return request.path_info.startswith(_ROOT) or request.path_info == _ROOT[:-1]


def _with_user(get_response: Respond) -> Respond:
    def respond(request: HttpRequest) -> HttpResponse:
        request.user = SimpleLazyObject(lambda: console_session.user(request))  # type: ignore[assignment]  # an Operator
        return get_response(request)

    return respond


def _is_allowed(request: HttpRequest) -> bool:
    console = conf.current().console
    if not console.enabled:
        return False
    if not console.allowed_networks:
        return True
    address = client_address(request)
    return bool(address) and any(ip_address(address) in network for network in console.allowed_networks)
