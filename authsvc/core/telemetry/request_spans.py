"""One span for each sampled request: the instrumentation's own, without what makes it dear; and none for the others.

What opentelemetry-instrumentation-django does for a request costs 0.2 ms even when the request turns out not to be
sampled: it writes the whole address down three times and looks the route up twice. So it is decided first, and only a
request that is sampled goes through it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from opentelemetry import context, propagate, trace
from opentelemetry.instrumentation.django.middleware import otel_middleware
from opentelemetry.instrumentation.wsgi import wsgi_getter
from opentelemetry.metrics import NoOpMeter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, Tracer

from authsvc.core.web import routes

_NAME = "api"
_LONGEST_PARAMETER = 100

_drawn: ContextVar[int | None] = ContextVar("drawn_trace_id", default=None)
_sampler: Sampler | None = None


class Ids(RandomIdGenerator):
    """Gives a request the trace id with which it was decided that it is sampled."""

    def generate_trace_id(self) -> int:
        return _drawn.get() or super().generate_trace_id()


_ids = RandomIdGenerator()


def begin(tracer: Tracer, sampler: Sampler) -> None:
    """Trace what `sampler` samples, from now on."""
    global _sampler
    RequestSpans._tracer = tracer
    _sampler = sampler


_Instrumented: Any = otel_middleware._DjangoMiddleware
"""Without types."""

# Read here, so that a version of the libraries that has them no more fails when it is loaded, not at each request.
_SPAN: str = _Instrumented._environ_span_key
_ACTIVATION: str = _Instrumented._environ_activation_key
_JOINED: str = _Instrumented._environ_token
_SUPPRESSED: str = context._SUPPRESS_INSTRUMENTATION_KEY


class RequestSpans(_Instrumented):  # type: ignore[misc]
    _active_request_counter = NoOpMeter("authsvc").create_up_down_counter("requests")

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _sampler is None:
            return self._untraced(request)
        parent = propagate.extract(request.META, getter=wsgi_getter)
        caller = trace.get_current_span(parent).get_span_context()
        trace_id = caller.trace_id if caller.is_valid else _ids.generate_trace_id()
        if _sampler.should_sample(parent, trace_id, _NAME, SpanKind.SERVER).decision is not Decision.DROP:
            return self._traced(request, trace_id)
        # Whoever is called by this request should not begin a trace of its own.
        unsampled = SpanContext(trace_id, _ids.generate_span_id(), is_remote=False, trace_state=caller.trace_state)
        aware = trace.set_span_in_context(NonRecordingSpan(unsampled), parent)
        # One key instead of the two of `suppress_instrumentation`, which costs as much as all the rest here.
        token = context.attach(context.set_value(_SUPPRESSED, True, aware))
        try:
            return self._untraced(request)
        finally:
            context.detach(token)

    def _untraced(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = self.get_response(request)
        return response

    def _traced(self, request: HttpRequest, trace_id: int) -> HttpResponse:
        token = _drawn.set(trace_id)
        try:
            self.process_request(request)
        except SuspiciousOperation:
            # A Host that is none: we never ask for it, and a request is not to be refused for being traced.
            return self._untraced(request)
        finally:
            _drawn.reset(token)
        response = self._untraced(request)
        # Not `process_response`, which writes the address down once more before it does the same.
        meta = request.META
        if (span := meta.pop(_SPAN, None)) is None:
            # OTEL_PYTHON_DJANGO_EXCLUDED_URLS names this address.
            return response
        _describe(span, request, response)
        meta.pop(_ACTIVATION).__exit__(None, None, None)
        if (joined := meta.pop(_JOINED, None)) is not None:
            context.detach(joined)
        return response

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Nothing: what is to be said of the route is said at the end."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        """Nothing: what became of the exception is in the answer."""

    @staticmethod
    def _get_span_name(request: HttpRequest) -> str:
        return _NAME


def _describe(span: Span, request: HttpRequest, response: HttpResponse) -> None:
    meta = request.META
    attributes: dict[str, str | int] = {
        "http.method": request.method or "",
        "http.request.method": request.method or "",
        "url.path": request.path_info,
        "url.scheme": request.scheme or "",
        "server.address": urlsplit(settings.AUTH.api.external_url).hostname or "",
        "http.status_code": response.status_code,
        "http.response.status_code": response.status_code,
    }
    if (match := request.resolver_match) is not None:
        attributes["http.route"] = routes.shown(request)
        for name, value in match.kwargs.items():
            attributes[f"http.route.params.{name}"] = str(value)[:_LONGEST_PARAMETER]
    for name in ("error_code", "request_id"):
        if value := meta.get(f"authsvc.{name}"):
            attributes[f"auth.{name}"] = value
    span.set_attributes(attributes)
    if response.status_code >= 500:
        span.set_status(StatusCode.ERROR)
