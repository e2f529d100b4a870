"""What may leave the process of a span: nothing that an instrumentation has written down beside what is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind

from authsvc.core.telemetry import tracing


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
