"""One span for each request, in the trace that the client has begun if it says so."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from authsvc.api import routes

_NAME = "api"
_LONGEST_PARAMETER = 100
_NO_PARENT = Context()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """Who begins spans of requests."""

    joining: Tracer
    """Of those that are part of a trace already, and of all but requests."""
    beginning: Tracer
    """Of those that begin one."""
    share: float
    """Of the latter, how many are put to `beginning` at all; 0 to 1."""


_tracing: Tracing | None = None


class _Headers(Getter[dict[str, str]]):
    """Headers of a request where WSGI has put them."""

    def get(self, carrier: dict[str, str], key: str) -> list[str] | None:
        found = carrier.get(_place(key))
        return None if found is None else [found]

    def keys(self, carrier: dict[str, str]) -> list[str]:
        """For propagators whose headers have no fixed names, none of which the standard ones are."""
        return []


def _place(header: str) -> str:
    return f"HTTP_{header.upper().replace('-', '_')}"


_HEADERS = _Headers()
_JOINING = [_place(field) for field in propagate.get_global_textmap().fields]
"""Where a request says which trace it is part of."""


def begin(tracing: Tracing) -> None:
    """Trace requests from now on."""
    global _tracing
    _tracing = tracing


class RequestSpans:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        tracing = _tracing
        if tracing is None:
            return self._get_response(request)
        # Most requests go through here and get no span: every ten calls are 1 % of a GET /user.
        meta = request.META
        if any(map(meta.__contains__, _JOINING)):
            parent = propagate.extract(meta, getter=_HEADERS)
            span = tracing.joining.start_span(_NAME, parent, SpanKind.SERVER)
        elif tracing.share < 1 and random.random() >= tracing.share:  # noqa: S311  (no secret)
            return self._get_response(request)
        else:
            parent = _NO_PARENT
            span = tracing.beginning.start_span(_NAME, parent, SpanKind.SERVER)
        # Also where the client's trace is not sampled, so that who is called knows of it.
        token = context.attach(trace.set_span_in_context(span, parent))
        try:
            response = self._get_response(request)
        finally:
            context.detach(token)
        if span.is_recording():
            _describe(span, request, response)
            span.end()
        return response


def _describe(span: Span, request: HttpRequest, response: HttpResponse) -> None:
    meta = request.META
    attributes: dict[str, str | int] = {
        "http.method": request.method or "",
        "http.request.method": request.method or "",
        "url.path": request.path_info,
        "http.response.status_code": response.status_code,
    }
    if (match := request.resolver_match) is not None:
        attributes["http.route"] = routes.route_template(request)
        for name, value in match.kwargs.items():
            attributes[f"http.route.params.{name}"] = str(value)[:_LONGEST_PARAMETER]
    for name in ("error_code", "request_id"):
        if value := meta.get(f"authsvc.{name}"):
            attributes[f"auth.{name}"] = value
    span.set_attributes(attributes)
    if response.status_code >= 500:
        span.set_status(StatusCode.ERROR)
