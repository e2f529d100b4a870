"""Assigns request ids, enforces the maximum duration, writes the access log and handles unexpected exceptions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from uuid import UUID, uuid4

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse

from authsvc import audit, conf
from authsvc.api import callers, exception_handler
from authsvc.errors import RequestTimedOut
from authsvc.observability.routes import route_template
from authsvc.security import redirects

logger = logging.getLogger("authsvc.api")

_NO_ACTOR = str(UUID(int=0))
_UNLOGGED = frozenset({"/health", "/health/"})


class RequestMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        header = conf.current().api.request_id_header
        request.META["authsvc.request_id"] = request.headers.get(header, "") if header else str(uuid4())
        audit.clear_last_payload()
        response = self.get_response(request)
        duration = time.monotonic() - started
        limit = conf.current().api.max_request_duration.total_seconds()
        if 0 < limit < duration:
            response = exception_handler.error_response(RequestTimedOut(), request)
        if request.path_info not in _UNLOGGED:
            self._log(request, response.status_code, duration)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse:
        return exception_handler.error_response(exception, request)

    @staticmethod
    def _log(request: HttpRequest, status: int, duration: float) -> None:
        level = logging.ERROR if status >= 500 else logging.WARNING if status >= 400 else logging.INFO
        if not logger.isEnabledFor(level):
            return
        target = redirects.resolve(
            header=request.headers.get("redirect_to"),
            query=_query_parameter(request, "redirect_to"),
            referer=request.headers.get("Referer"),
        )
        fields: dict[str, object] = {
            "component": "api",
            "method": request.method,
            "path": request.path_info,
            "remote_addr": callers.client_address(request),
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
        if (event := audit.last_payload()) is not None:
            fields["auth_event"] = event
            if event["actor_id"] != _NO_ACTOR:
                fields.setdefault("user_id", event["actor_id"])
        logger.log(level, "request completed", extra=fields)


def _query_parameter(request: HttpRequest, name: str) -> str | None:
    """A query parameter; None also if Django rejects the query string."""
    try:
        return request.GET.get(name)
    except SuspiciousOperation:
        return None
