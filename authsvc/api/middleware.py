"""Middleware of all requests: CORS, security headers, request ids, maximum duration, access log, unexpected errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from uuid import UUID, uuid4

from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers

from authsvc import conf, languages
from authsvc.api import exception_handler, pages
from authsvc.api.parsing import REQUEST_ERROR
from authsvc.caller import Caller, client_address, current_caller
from authsvc.errors import RequestTimedOut
from authsvc.observability.arrival import arrival_of
from authsvc.observability.logs import REQUEST_COMPLETED
from authsvc.observability.routes import route_template

logger = logging.getLogger("authsvc.api")

_NO_ACTOR = str(UUID(int=0))
_MAX_REQUEST_ID_LENGTH = 255
_MAX_PATH_LENGTH = 2_048
_UNLOGGED = frozenset({"/health", "/health/"})

_CORS_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_CORS_HEADERS = frozenset(
    {
        "accept",
        "authorization",
        "content-type",
        "x-client-ip",
        "x-client-info",
        "x-jwt-aud",
        "x-use-cookie",
        "x-supabase-api-version",
    }
)
_EXPOSED_HEADERS = "X-Total-Count, Link, X-Supabase-Api-Version"
# Pages set a policy of their own; every other response is data. `connect-src` is for the console of a browser.
_CONTENT_POLICY = "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PREFLIGHT_VARY = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"


class CorsMiddleware:
    """Adds CORS and security headers to every response, including errors; the outermost middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in request.META:
            return _preflight(request)
        response = self._get_response(request)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers.setdefault("Content-Security-Policy", _CONTENT_POLICY)
        patch_vary_headers(response, ["Origin"])
        # HTML pages set this header, because they are for their own origin only.
        if request.META.get("HTTP_ORIGIN") and "Cross-Origin-Resource-Policy" not in response:
            response["Access-Control-Allow-Origin"] = "*"
            response["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
            response["Access-Control-Allow-Credentials"] = "true"
        return response


class RequestMiddleware:
    """Assigns request ids, enforces the maximum duration, writes the access log, handles unexpected exceptions."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        arrived = arrival_of(request, now=started)
        limit = conf.current().api.max_request_duration.total_seconds()
        header = conf.current().api.request_id_header
        sent_id = request.headers.get(header, "")[:_MAX_REQUEST_ID_LENGTH] if header else ""
        request.META["authsvc.request_id"] = sent_id if header else str(uuid4())
        error = request.META.get(REQUEST_ERROR)
        if 0 < limit < 2 * (started - arrived):
            # Half of the time remains for its execution. Otherwise, under overload, requests that have waited for
            # nearly all of it would be executed, and then exceed it.
            error = RequestTimedOut()
        if error is None:
            token = languages.preferred.set(request.META.get("HTTP_ACCEPT_LANGUAGE", ""))
            try:
                response = self.get_response(request)
            finally:
                languages.preferred.reset(token)
                current_caller.set(None)
        else:
            response = exception_handler.error_response(error, request)
        duration = time.monotonic() - arrived
        if 0 < limit < duration:
            response = exception_handler.error_response(RequestTimedOut(), request)
        if request.path_info not in _UNLOGGED:
            self._log(request, response.status_code, duration)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse:
        if isinstance(exception, Http404):
            return pages.not_found(request)
        return exception_handler.error_response(exception, request)

    @staticmethod
    def _log(request: HttpRequest, status: int, duration: float) -> None:
        level = logging.ERROR if status >= 500 else logging.WARNING if status >= 400 else logging.INFO
        if not logger.isEnabledFor(level):
            return
        # Only views that redirect validate a target; the log does not, because it is written for every request.
        target: str = request.META.get("authsvc.redirect_target") or conf.current().site.url
        fields: dict[str, object] = {
            "component": "api",
            "method": request.method,
            "path": request.path_info[:_MAX_PATH_LENGTH],
            "remote_addr": client_address(request),
            # The query of a redirect target may contain a code.
            "referer": target.partition("#")[0].partition("?")[0],
            "status": status,
            "duration": int(duration * 1e9),
        }
        if request.path_info.rstrip("/") == "/token":
            fields["grant_type"] = _query_parameter(request, "grant_type") or ""
        if request_id := request.META["authsvc.request_id"]:
            fields["request_id"] = request_id
        for name in ("error_code", "error", "user_id"):
            if value := request.META.get(f"authsvc.{name}"):
                fields[name] = value
        if request.resolver_match is not None:
            fields["route"] = route_template(request)
        caller: Caller | None = request.META.get("authsvc.caller")
        if caller is not None and caller.audit.payloads:
            event = fields["auth_event"] = caller.audit.payloads[-1]
            if event["actor_id"] != _NO_ACTOR:
                fields.setdefault("user_id", event["actor_id"])
        logger.log(level, REQUEST_COMPLETED, extra=fields)


def _query_parameter(request: HttpRequest, name: str) -> str | None:
    """A query parameter; None also if Django rejects the query string."""
    try:
        return request.GET.get(name)
    except SuspiciousOperation:
        return None


def _preflight(request: HttpRequest) -> HttpResponse:
    """Answer 204 on any path; the headers are missing if the request is not allowed."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = _CONTENT_POLICY
    response["Vary"] = _PREFLIGHT_VARY
    method = request.META["HTTP_ACCESS_CONTROL_REQUEST_METHOD"]
    headers = request.META.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    if request.META.get("HTTP_ORIGIN") and method in _CORS_METHODS and _are_allowed_headers(headers):
        response["Access-Control-Allow-Origin"] = "*"
        response["Access-Control-Allow-Methods"] = method
        if headers:
            response["Access-Control-Allow-Headers"] = headers
        response["Access-Control-Allow-Credentials"] = "true"
    return response


def _are_allowed_headers(headers: str) -> bool:
    configured = {name.lower() for name in conf.current().api.cors_allowed_headers}
    names = {name.strip().lower() for name in headers.split(",")} - {""}
    return names <= _CORS_HEADERS | configured
