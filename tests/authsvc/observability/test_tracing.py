"""Spans describe requests, statements, calls and jobs, and hold no secret."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import RequestFactory
from opentelemetry import context, propagate, trace
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import SpanKind

from authsvc.observability import tracing
from authsvc.outgoing import http
from tests.fakes.http_peer import HttpPeer


class Exported(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


@pytest.fixture
def exported() -> Exported:
    return Exported()


@pytest.fixture
def provider(exported: Exported) -> TracerProvider:
    made = TracerProvider(tracing.WorkSampler(ParentBased(ALWAYS_ON)), shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(tracing.RedactingExporter(exported)))
    return made


@pytest.fixture
def tracer(provider: TracerProvider) -> trace.Tracer:
    return provider.get_tracer("test")


@pytest.fixture
def instrumented_requests(provider: TracerProvider) -> Iterator[None]:
    instrumentor = RequestsInstrumentor()
    instrumentor.instrument(tracer_provider=provider, request_hook=tracing.describe_call)
    yield
    instrumentor.uninstrument()


def test_a_span_has_the_class_of_an_error_without_its_text(tracer: trace.Tracer, exported: Exported) -> None:
    with (
        pytest.raises(ValueError, match="secret"),
        tracer.start_as_current_span("job", kind=SpanKind.CONSUMER, attributes={"auth.job": "mailer.deliver"}),
    ):
        raise ValueError("Key (email)=(secret) already exists")
    (span,) = exported.spans
    assert dict(span.attributes or {}) == {"auth.job": "mailer.deliver", "error.type": "ValueError"}
    assert not span.status.is_ok
    assert "secret" not in span.to_json()


def test_only_allowed_attributes_are_exported(tracer: trace.Tracer, exported: Exported) -> None:
    attributes = {"http.url": "https://example.com/verify?token=secret", "http.route.params.id": "7", "url.path": "/"}
    tracer.start_span("api", kind=SpanKind.SERVER, attributes=attributes).end()
    assert dict(exported.spans[0].attributes or {}) == {"http.route.params.id": "7", "url.path": "/"}


def test_a_request_is_described_by_its_route_and_parameters(tracer: trace.Tracer, exported: Exported) -> None:
    request = RequestFactory().get("/admin/users/7?token=secret")
    request.resolver_match = type("Match", (), {"route": "admin/users/<uuid:user_id>", "kwargs": {"user_id": 7}})()
    request.META["authsvc.error_code"] = "user_not_found"
    with tracer.start_as_current_span("GET", kind=SpanKind.SERVER) as span:
        tracing.name_request(span, request)
        tracing.describe_request(span, request, HttpResponse())
    assert exported.spans[0].name == "api"
    assert dict(exported.spans[0].attributes or {}) == {
        "http.method": "GET",
        "url.path": "/admin/users/7",
        "http.route": "/admin/users/{user_id}",
        "http.route.params.user_id": "7",
        "auth.error_code": "user_not_found",
    }


@pytest.mark.parametrize("host", ["auth_service:8081", "a b", "example.com"])
def test_a_malformed_host_does_not_reach_the_instrumentation(host: str) -> None:
    respond = tracing.accept_any_host(lambda request: HttpResponse(request.build_absolute_uri("?")))
    assert respond(RequestFactory(headers={"Host": host}).get("/user")).status_code == 200


@pytest.mark.parametrize("kind", [SpanKind.SERVER, SpanKind.CONSUMER])
def test_statements_and_calls_are_traced_only_within_a_request_or_job(
    kind: SpanKind, tracer: trace.Tracer, exported: Exported
) -> None:
    tracer.start_span("SELECT", kind=SpanKind.CLIENT).end()
    assert exported.spans == []
    with tracer.start_as_current_span("work", kind=kind):
        tracer.start_span("UPDATE", kind=SpanKind.CLIENT).end()
    assert [span.name for span in exported.spans] == ["UPDATE", "work"]


@pytest.mark.parametrize("root", [ALWAYS_ON, ALWAYS_OFF], ids=["all", "none"])
@pytest.mark.parametrize(("flag", "count"), [("01", 1), ("00", 0)])
def test_the_sampling_decision_of_the_client_is_kept(
    root: Any, flag: str, count: int, provider: TracerProvider, exported: Exported
) -> None:
    provider.sampler = tracing.WorkSampler(ParentBased(root))
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    joined = propagate.extract({"traceparent": f"00-{trace_id}-b7ad6b7169203331-{flag}"})
    provider.get_tracer("test").start_span("api", joined, SpanKind.SERVER).end()
    assert [f"{span.context.trace_id:032x}" for span in exported.spans if span.context] == [trace_id] * count


@pytest.mark.django_db
def test_a_statement_is_exported_without_its_arguments(
    provider: TracerProvider, tracer: trace.Tracer, exported: Exported
) -> None:
    connection.ensure_connection()
    traced = PsycopgInstrumentor.instrument_connection(connection.connection, tracer_provider=provider)
    try:
        with tracer.start_as_current_span("api", kind=SpanKind.SERVER), traced.cursor() as cursor:
            cursor.execute("SELECT %s::text", ["secret"])
    finally:
        connection.connection = PsycopgInstrumentor.uninstrument_connection(traced)
    statement = exported.spans[0]
    assert statement.name == "SELECT"
    attributes = dict(statement.attributes or {})
    assert {"db.system": "postgresql", "db.statement": "SELECT %s::text"}.items() <= attributes.items()
    assert "secret" not in statement.to_json()


@pytest.mark.usefixtures("instrumented_requests")
def test_a_call_is_exported_without_its_address(tracer: trace.Tracer, exported: Exported) -> None:
    with HttpPeer() as peer, tracer.start_as_current_span("job", kind=SpanKind.CONSUMER):
        http.send("GET", f"{peer.url}/secret?code=secret", timeout=timedelta(seconds=5), max_bytes=1000)
    call = exported.spans[0]
    attributes = dict(call.attributes or {})
    assert {"http.method": "GET", "server.address": "127.0.0.1"}.items() <= attributes.items()
    assert "secret" not in call.to_json()


@pytest.mark.usefixtures("instrumented_requests")
def test_a_call_continues_the_trace_of_the_client(tracer: trace.Tracer) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    received = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01", "tracestate": "a=b"}
    token = context.attach(propagate.extract(received))
    try:
        with HttpPeer() as peer:
            http.send("GET", peer.url, timeout=timedelta(seconds=5), max_bytes=1000)
    finally:
        context.detach(token)
    assert peer.received[0].headers["traceparent"].startswith(f"00-{trace_id}-")
    assert peer.received[0].headers["tracestate"] == "a=b"


@pytest.mark.usefixtures("instrumented_requests")
def test_unconfigured_hosts_get_no_trace_headers(tracer: trace.Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipaddress.IPv4Address, "is_global", True)
    with HttpPeer() as peer, tracer.start_as_current_span("api", kind=SpanKind.SERVER):
        http.send("GET", peer.url, timeout=timedelta(seconds=5), max_bytes=1000, public_only=True)
    assert "traceparent" not in peer.received[0].headers
