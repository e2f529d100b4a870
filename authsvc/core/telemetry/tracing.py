"""Spans on their way to a collector: which are begun, what may be in them, and how they are sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import psycopg
from opentelemetry import baggage, propagate, trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.dbapi import unwrap_connect
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from authsvc import __version__
from authsvc.core import spans
from authsvc.core.config import schema
from authsvc.core.telemetry import about, request_spans

PROTOCOLS = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
}

# What leaves the process. Instrumentations record whole addresses, queries and messages of errors beside these, in
# which there are tokens, and may record more in their next version.
_TOLD = frozenset(
    {
        *("http.method", "http.request.method", "http.status_code", "http.response.status_code", "http.route"),
        *("url.path", "url.scheme", "http.scheme", "server.address", "server.port", "net.host.name", "net.host.port"),
        *("network.protocol.version", "http.flavor", "error.type", "exception.type"),
        *("db.system", "db.system.name", "db.name", "db.namespace", "db.statement", "db.query.text"),
        *("db.operation.name", "auth.error_code", "auth.request_id", "auth.job"),
    }
)
_ROUTE_PARAMETER = "http.route.params."


def start(config: schema.Telemetry) -> Callable[[], None]:
    """Trace requests, statements, calls and jobs of this process. Raises ValueError for an unknown protocol."""
    if config.otlp_protocol not in PROTOCOLS:
        raise ValueError(f'unsupported OpenTelemetry exporter protocol "{config.otlp_protocol}"')
    exporter = import_module(f"{PROTOCOLS[config.otlp_protocol]}.trace_exporter").OTLPSpanExporter()
    provider = TracerProvider(
        resource=Resource.create(about.resource(config)), id_generator=request_spans.Ids(), shutdown_on_exit=False
    )
    sampler = provider.sampler
    provider.sampler = NotAlone(sampler)
    provider.add_span_processor(BatchSpanProcessor(Discreet(exporter)))
    trace.set_tracer_provider(provider)
    tracer = provider.get_tracer("authsvc", __version__)
    PsycopgInstrumentor().instrument(tracer_provider=provider)
    # The library of the jobs asks its tables several times a second, for nobody.
    unwrap_connect(psycopg.AsyncConnection, "connect")
    spans.tell(_Recorder(tracer))
    request_spans.begin(tracer, sampler)
    return provider.shutdown


class NotAlone(Sampler):
    """Another sampler's decisions, but for statements and calls of no request and no job, which nobody could place."""

    def __init__(self, inner: Sampler) -> None:
        self._inner = inner

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        links: Any = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        if kind is SpanKind.CLIENT and not trace.get_current_span(parent_context).get_span_context().is_valid:
            return SamplingResult(Decision.DROP)
        return self._inner.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return self._inner.get_description()


class Discreet(SpanExporter):
    """Hands on of each span what is known to hold no secret."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._inner.export([_told(span) for span in spans])

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def _told(span: ReadableSpan) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=_only_told(span.attributes),
        events=[Event(event.name, _only_told(event.attributes), event.timestamp) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _only_told(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        name: value for name, value in (attributes or {}).items() if name in _TOLD or name.startswith(_ROUTE_PARAMETER)
    }


class _Recorder:
    """The `spans.Recorder` of a process that is traced."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    @contextlib.contextmanager
    def outgoing(self, *, method: str, host: str) -> Iterator[_Call]:
        attributes = {"http.method": method, "http.request.method": method, "server.address": host}
        with self._span(method, SpanKind.CLIENT, attributes) as span:
            yield _Call(span)

    @contextlib.contextmanager
    def job(self, *, name: str) -> Iterator[None]:
        with self._span(name, SpanKind.CONSUMER, {"auth.job": name}):
            yield

    @contextlib.contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Mapping[str, str]) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise


class _Call:
    def __init__(self, span: Span) -> None:
        self._span = span
        self.headers: dict[str, str] = {}
        # A client's baggage is for nobody else: who is called may be anyone's server.
        propagate.inject(self.headers, context=baggage.clear())

    def answered(self, status: int) -> None:
        self._span.set_attributes({"http.status_code": status, "http.response.status_code": status})
        if status >= 400:
            self._span.set_status(StatusCode.ERROR)
