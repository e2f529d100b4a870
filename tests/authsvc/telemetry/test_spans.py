"""What spans say: of requests, statements, calls and jobs what is known to hold no secret."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from opentelemetry import context, propagate
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio, Sampler
from psycopg import sql

from authsvc.observability import spans
from authsvc.observability.telemetry import request_spans, tracing
from authsvc.outgoing import http
from tests.fakes.http_peer import HttpPeer

Requested = Callable[[Sampler, int, dict[str, str]], list[ReadableSpan]]


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


@pytest.fixture
def requested() -> Iterator[Requested]:
    """`requested(sampler, 3, {})` makes three requests with no headers; the spans of those that got one."""

    def request(sampler: Sampler, times: int, headers: dict[str, str]) -> list[ReadableSpan]:
        made = Kept()
        processor = SimpleSpanProcessor(made)
        provider = TracerProvider(sampler, shutdown_on_exit=False)
        provider.add_span_processor(processor)
        request_spans.begin(tracing._requests(provider, processor))
        respond = request_spans.RequestSpans(lambda _: HttpResponse())
        for _ in range(times):
            respond(RequestFactory(headers=headers).get("/user"))
        return made.spans

    before = request_spans._tracing
    yield request
    request_spans._tracing = before


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Spans that have ended."""
    made = Kept()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(made))
    spans.tell(tracing._Recorder(provider.get_tracer("test")))
    yield made
    spans.tell(None)


@pytest.mark.parametrize(
    ("failing", "told"),
    [
        (lambda: spans.job(name="mailer.deliver"), {"auth.job": "mailer.deliver"}),
        (
            lambda: spans.statement("SELECT %s"),
            {"db.system": "postgresql", "db.statement": "SELECT %s"},
        ),
        (
            lambda: spans.statement(sql.SQL("SELECT {}").format(sql.Identifier("a"))),
            {"db.system": "postgresql", "db.statement": 'SELECT "a"'},
        ),
        (
            lambda: spans.outgoing(method="GET", host="example.com"),
            {"http.method": "GET", "http.request.method": "GET", "server.address": "example.com"},
        ),
    ],
    ids=["job", "statement", "composed statement", "call"],
)
def test_of_an_error_its_kind_is_told_and_none_of_its_words(
    kept: Kept, failing: Callable[[], contextlib.AbstractContextManager[object]], told: dict[str, str]
) -> None:
    with spans.job(name="around"), pytest.raises(ValueError, match="secret"), failing():
        raise ValueError("Key (email)=(secret) already exists")
    span = kept.spans[0]
    assert dict(span.attributes or {}) == {**told, "error.type": "ValueError"}
    assert not span.status.is_ok
    assert "secret" not in span.to_json()


def test_of_requests_that_begin_a_trace_the_share_that_is_asked_for_is_traced(
    requested: Requested,
) -> None:
    assert requested(ParentBasedTraceIdRatio(0.0), 100, {}) == []
    assert len(requested(ParentBasedTraceIdRatio(1.0), 100, {})) == 100
    # Six standard deviations to both sides.
    assert 835 < len(requested(ParentBasedTraceIdRatio(0.25), 4000, {})) < 1165


@pytest.mark.parametrize("sampler", [ParentBasedTraceIdRatio(0.0), ParentBasedTraceIdRatio(1.0)], ids=["none", "all"])
@pytest.mark.parametrize(("flag", "traced"), [("01", 10), ("00", 0)])
def test_of_requests_that_join_a_trace_their_client_decides(
    sampler: Sampler,
    flag: str,
    traced: int,
    requested: Requested,
) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    found = requested(sampler, 10, {"traceparent": f"00-{trace_id}-b7ad6b7169203331-{flag}"})
    assert len(found) == traced
    assert {f"{span.context.trace_id:032x}" for span in found if span.context} <= {trace_id}


def test_what_belongs_to_no_request_and_no_job_is_not_begun(kept: Kept) -> None:
    with spans.statement("SELECT 1"), spans.outgoing(method="GET", host="example.com") as call:
        assert not call.headers
    assert kept.spans == []
    with spans.job(name="mailer.deliver"), spans.statement("UPDATE x"):
        pass
    assert [span.name for span in kept.spans] == ["UPDATE", "mailer.deliver"]


def test_calls_go_on_with_the_trace_of_a_client_and_without_its_baggage(kept: Kept) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    brought = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01", "tracestate": "a=b", "baggage": "user=ann"}
    joined = context.attach(propagate.extract(brought))
    try:
        with HttpPeer() as peer:
            http.send("GET", peer.url, timeout=timedelta(seconds=5), max_bytes=1000)
    finally:
        context.detach(joined)
    (received,) = peer.received
    assert received.headers["traceparent"].startswith(f"00-{trace_id}-")
    assert received.headers["tracestate"] == "a=b"
    assert "baggage" not in received.headers
