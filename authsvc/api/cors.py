"""Allows browser code of any origin to call the API, and answers preflight requests (Fetch standard, CORS)."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers

from authsvc import conf

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_HEADERS = frozenset(
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
_EXPOSED = "X-Total-Count, Link, X-Supabase-Api-Version"
_PREFLIGHT_VARY = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"


class CorsMiddleware:
    """Adds CORS headers to every response, including errors; the outermost middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in request.META:
            return _preflight(request)
        response = self._get_response(request)
        patch_vary_headers(response, ["Origin"])
        # HTML pages set this header, because they are for their own origin only.
        if request.META.get("HTTP_ORIGIN") and "Cross-Origin-Resource-Policy" not in response:
            response["Access-Control-Allow-Origin"] = "*"
            response["Access-Control-Expose-Headers"] = _EXPOSED
            response["Access-Control-Allow-Credentials"] = "true"
        return response


def _preflight(request: HttpRequest) -> HttpResponse:
    """Answer 204 on any path; the headers are missing if the request is not allowed."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    response["Vary"] = _PREFLIGHT_VARY
    method = request.META["HTTP_ACCESS_CONTROL_REQUEST_METHOD"]
    headers = request.META.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    if request.META.get("HTTP_ORIGIN") and method in _METHODS and _are_allowed(headers):
        response["Access-Control-Allow-Origin"] = "*"
        response["Access-Control-Allow-Methods"] = method
        if headers:
            response["Access-Control-Allow-Headers"] = headers
        response["Access-Control-Allow-Credentials"] = "true"
    return response


def _are_allowed(headers: str) -> bool:
    configured = {name.lower() for name in conf.current().api.cors_allowed_headers}
    names = {name.strip().lower() for name in headers.split(",")} - {""}
    return names <= _HEADERS | configured
