"""What is told of a request's statements and calls, and of jobs, and how it is sent.

No address, header, argument or text of an error is ever written down in a span: there are secrets in them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from psycopg import sql

from authsvc import __version__, conf
from authsvc.observability import spans
from authsvc.observability.telemetry import about, exporters, request_spans


def start(config: conf.Telemetry) -> Callable[[], None]:
    """Trace requests, statements, calls and jobs of this process. Raises ValueError for an unknown protocol."""
    exporter = exporters.make(config, "TRACES")
    resource = _Hashed(Resource.create(about.resource(config)))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    processor = BatchSpanProcessor(exporter)
    provider.add_span_processor(processor)
    # First, because it may fail with another version of the libraries.
    requests = _requests(provider, processor)
    trace.set_tracer_provider(provider)
    spans.tell(_Recorder(requests.joining))
    request_spans.begin(requests)
    return provider.shutdown


class _Hashed(Resource):
    """A resource that is hashed once: the exporters ask for it with every span, which writes it all down as JSON."""

    def __init__(self, of: Resource) -> None:
        super().__init__(of.attributes, of.schema_url)
        self._once = super().__hash__()

    def __hash__(self) -> int:
        return self._once

    # Without it there would be no hash either.
    __eq__ = Resource.__eq__


def _requests(provider: TracerProvider, processor: SpanProcessor) -> request_spans.Tracing:
    """Requests sampled as everything else is, but where that is by share, with a draw that costs a fifth."""
    tracer = provider.get_tracer("authsvc", __version__)
    share = _share(provider.sampler)
    if share is None:
        return request_spans.Tracing(joining=tracer, beginning=tracer, share=1)
    drawn = TracerProvider(sampler=sampling.ALWAYS_ON, resource=provider.resource, shutdown_on_exit=False)
    drawn.add_span_processor(processor)
    beginning = drawn.get_tracer("authsvc", __version__)
    return request_spans.Tracing(joining=tracer, beginning=beginning, share=share)


def _share(sampler: Any) -> float | None:
    """Of the traces that begin here, how many `sampler` takes; None where it goes by something else."""
    is_by_share = isinstance(sampler, sampling.ParentBasedTraceIdRatio)
    return float(sampler._root.rate) if is_by_share else None


class _Recorder:
    """The `spans.Recorder` of a process that is traced. Calls and statements of no request and no job are left out."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def outgoing(self, *, method: str, host: str) -> AbstractContextManager[spans.Call]:
        if not trace.get_current_span().get_span_context().is_valid:
            return spans.UNTOLD
        attributes = {"http.method": method, "http.request.method": method, "server.address": host}
        return _Call(self._tracer.start_span(method, kind=SpanKind.CLIENT, attributes=attributes))

    def job(self, *, name: str) -> AbstractContextManager[object]:
        return _Open(self._tracer.start_span(name, kind=SpanKind.CONSUMER, attributes={"auth.job": name}))

    def statement(self, text: object) -> AbstractContextManager[object]:
        # The first question is answered soonest, and with yes for most.
        if not context.get_current() or not trace.get_current_span().is_recording():
            return spans.UNTOLD
        told = text.as_string() if isinstance(text, sql.Composable) else str(text)
        [kind] = told.split(maxsplit=1)[:1] or ["nothing"]
        attributes = {"db.system": "postgresql", "db.statement": told}
        return _Ending(self._tracer.start_span(kind.upper(), kind=SpanKind.CLIENT, attributes=attributes))


class _Ending:
    """A span that ends with its `with` block. Of an error its kind is told alone."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._span.set_attribute("error.type", kind.__name__)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


class _Open(_Ending):
    """One that what happens in the block belongs to."""

    def __enter__(self) -> Self:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        context.detach(self._token)
        super().__exit__(kind, error, traceback)


class _Call(_Open):
    def __enter__(self) -> Self:
        super().__enter__()
        self.headers: dict[str, str] = {}
        # A client's baggage is for nobody else: who is called may be anyone's server.
        propagate.inject(self.headers, context=baggage.clear())
        return self

    def answered(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._span.set_status(StatusCode.ERROR)
