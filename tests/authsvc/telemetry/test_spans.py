"""What may leave the process of a span: nothing that an instrumentation has written down beside what is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from opentelemetry import context, propagate
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind

from authsvc.core import http, spans
from authsvc.core.telemetry import tracing
from tests.fakes.http_peer import HttpPeer


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


def provider(kept: Kept) -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(tracing.Discreet(kept)))
    return made


def test_addresses_headers_arguments_and_words_of_errors_stay_here() -> None:
    kept = Kept()
    tracer = provider(kept).get_tracer("test")
    attributes = {
        "http.url": "http://x/verify?token=secret",
        "http.target": "/verify?token=secret",
        "url.full": "http://x/verify?token=secret",
        "url.query": "token=secret",
        "http.request.header.authorization": ["Bearer secret"],
        "db.statement.parameters": "('secret',)",
        "user_agent.original": "secret",
        "url.path": "/verify",
        "http.route.params.user_id": "1",
    }
    with pytest.raises(ValueError, match="secret"), tracer.start_as_current_span("api", attributes=attributes):
        raise ValueError("Key (email)=(secret) already exists")
    (span,) = kept.spans
    assert dict(span.attributes or {}) == {"url.path": "/verify", "http.route.params.user_id": "1"}
    assert [dict(event.attributes or {}) for event in span.events] == [{"exception.type": "ValueError"}]
    assert "secret" not in span.to_json()
    assert not span.status.is_ok


def test_what_belongs_to_no_request_and_no_job_is_not_begun() -> None:
    kept = Kept()
    made = provider(kept)
    made.sampler = tracing.NotAlone(made.sampler)
    tracer = made.get_tracer("test")
    with tracer.start_as_current_span("SELECT", kind=SpanKind.CLIENT):
        pass
    server = tracer.start_as_current_span("api", kind=SpanKind.SERVER)
    with server, tracer.start_as_current_span("UPDATE", kind=SpanKind.CLIENT):
        pass
    assert [span.name for span in kept.spans] == ["UPDATE", "api"]


def test_calls_go_on_with_the_trace_of_a_client_and_without_its_baggage() -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    brought = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01", "tracestate": "a=b", "baggage": "user=ann"}
    spans.tell(tracing._Recorder(provider(Kept()).get_tracer("test")))
    joined = context.attach(propagate.extract(brought))
    try:
        with HttpPeer() as peer:
            http.send("GET", peer.url, timeout=timedelta(seconds=5), max_bytes=1000)
    finally:
        context.detach(joined)
        spans.tell(None)
    (received,) = peer.received
    assert received.headers["traceparent"].startswith(f"00-{trace_id}-")
    assert received.headers["tracestate"] == "a=b"
    assert "baggage" not in received.headers
