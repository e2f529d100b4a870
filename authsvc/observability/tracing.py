"""Spans of requests, statements, outgoing calls and jobs, made by OpenTelemetry's instrumentation libraries.

Addresses, headers, arguments and error texts may hold secrets, so only the attributes of an allow list are exported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.django import DjangoInstrumentor
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, Span, SpanKind, Status, TraceState
from opentelemetry.util.types import Attributes, AttributeValue

from authsvc import __version__, conf
from authsvc.observability import otlp
from authsvc.observability.routes import NO_ROUTE, route_template

if TYPE_CHECKING:
    from requests import PreparedRequest

_REQUEST_NAME = "api"
_PARAMETER = "http.route.params."
_MAX_PARAMETER_LENGTH = 100
_EXPORTED_ATTRIBUTES = frozenset(
    {
        "auth.error_code",
        "auth.job",
        "auth.request_id",
        "db.name",
        "db.statement",
        "db.system",
        "error.type",
        "http.method",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "http.status_code",
        "server.address",
        "url.path",
    }
)


def instrument() -> None:
    """Let requests, statements and outgoing calls make spans, which are dropped until `start`."""
    DjangoInstrumentor().instrument(request_hook=name_request, response_hook=describe_request)
    PsycopgInstrumentor().instrument()
    RequestsInstrumentor().instrument(request_hook=describe_call)
    # Before the middleware of the instrumentation, which is the first of the list by now.
    settings.MIDDLEWARE.insert(0, f"{__name__}.accept_any_host")


def start(config: conf.Telemetry) -> Callable[[], None]:
    """Export the spans of this process; returns a function that exports the rest and stops.

    Raises ValueError for an unsupported protocol.
    """
    exporter = otlp.exporter_class(config, "traces")()
    provider = TracerProvider(resource=Resource.create(otlp.process_attributes(config)), shutdown_on_exit=False)
    provider.sampler = WorkSampler(provider.sampler)
    provider.add_span_processor(BatchSpanProcessor(RedactingExporter(exporter)))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def job_span(name: str) -> AbstractContextManager[object]:
    """The span of one job, which begins a trace."""
    tracer = trace.get_tracer("authsvc", __version__)
    return tracer.start_as_current_span(name, Context(), SpanKind.CONSUMER, attributes={"auth.job": name})


def hook_span(name: str) -> AbstractContextManager[object]:
    """The span of one call of a hook, without attributes."""
    return trace.get_tracer("authsvc", __version__).start_as_current_span(f"hook {name}")


def accept_any_host(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that replaces a malformed Host header, such as one with an underscore.

    The instrumentation builds the absolute URL of every request, which Django refuses for such a host.
    """

    def respond(request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            request.META["HTTP_HOST"] = "invalid"
        return get_response(request)

    return respond


def name_request(span: Span, _request: HttpRequest) -> None:
    """Request hook of the Django instrumentation."""
    span.update_name(_REQUEST_NAME)


def describe_request(span: Span, request: HttpRequest, _response: HttpResponse) -> None:
    """Response hook of the Django instrumentation: sets the attributes that it does not set in this form."""
    if not span.is_recording():
        return
    attributes: dict[str, AttributeValue] = {"http.method": request.method or "", "url.path": request.path_info}
    route = route_template(request)
    if route != NO_ROUTE:
        attributes["http.route"] = route
    parameters = request.resolver_match.kwargs if request.resolver_match else {}
    for name, value in parameters.items():
        attributes[f"{_PARAMETER}{name}"] = str(value)[:_MAX_PARAMETER_LENGTH]
    for name in ("error_code", "request_id"):
        if value := request.META.get(f"authsvc.{name}"):
            attributes[f"auth.{name}"] = value
    span.set_attributes(attributes)


def describe_call(span: Span, request: PreparedRequest) -> None:
    """Request hook of the requests instrumentation."""
    if span.is_recording():
        host = urlsplit(request.url or "").hostname or ""
        span.set_attributes({"http.method": request.method or "", "server.address": host})


class WorkSampler(Sampler):
    """Samples as the operator has configured, but no statement or call outside of a request and a job."""

    def __init__(self, configured: Sampler) -> None:
        self._configured = configured

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        if kind is SpanKind.CLIENT and not trace.get_current_span(parent_context).get_span_context().is_valid:
            return SamplingResult(Decision.DROP)
        return self._configured.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"WorkSampler{{{self._configured.get_description()}}}"


class RedactingExporter(SpanExporter):
    """Passes spans on without texts of errors and without attributes that are not on the allow list."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([redact(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def redact(span: ReadableSpan) -> ReadableSpan:
    """`span` with the attributes of the allow list, the class of its error, and no events."""
    attributes: dict[str, AttributeValue] = {
        name: value
        for name, value in (span.attributes or {}).items()
        if name in _EXPORTED_ATTRIBUTES or name.startswith(_PARAMETER)
    }
    for event in span.events:
        if error_type := (event.attributes or {}).get("exception.type"):
            attributes.setdefault("error.type", error_type)
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
