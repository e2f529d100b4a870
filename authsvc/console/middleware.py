"""What surrounds a request for the console: who may reach it, its cookies, its headers. The API passes by."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import cast

from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from authsvc import conf
from authsvc.api import callers, exception_handler
from authsvc.api.renderers import NO_STORE
from authsvc.console import authentication, pages, static
from authsvc.errors import BodyTooLarge

_ROOT = "/operator/"
_LARGEST_FORM = 262_144
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with less, browsers would not say where a form was sent from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Respond = Callable[[HttpRequest], HttpResponse]


class ConsoleMiddleware:
    def __init__(self, get_response: Respond) -> None:
        self._get_response = get_response
        self._with_cookies = cast(Respond, SessionMiddleware(MessageMiddleware(_with_user(get_response))))

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not _is_ours(request):
            return self._get_response(request)
        if not _is_open_to(request):
            return exception_handler.error_response(Http404(), request)
        if int(request.META.get("CONTENT_LENGTH") or 0) > _LARGEST_FORM:
            return exception_handler.error_response(BodyTooLarge(), request)
        is_file = request.path_info.startswith(static.URL)
        response = (self._get_response if is_file else self._with_cookies)(request)
        for name, value in _HEADERS.items():
            response.headers[name] = value
        if not is_file:
            response.headers["Cache-Control"] = NO_STORE
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return pages.refusal(request, exception) if _is_ours(request) else None


def _is_ours(request: HttpRequest) -> bool:
    return request.path_info.startswith(_ROOT) or request.path_info == _ROOT[:-1]


def _with_user(get_response: Respond) -> Respond:
    def respond(request: HttpRequest) -> HttpResponse:
        request.user = SimpleLazyObject(lambda: authentication.user(request))  # type: ignore[assignment]  # an Operator
        return get_response(request)

    return respond


def _is_open_to(request: HttpRequest) -> bool:
    console = conf.current().console
    if not console.enabled:
        return False
    if not console.allowed_networks:
        return True
    address = callers.client_address(request)
    return bool(address) and any(ip_address(address) in network for network in console.allowed_networks)
