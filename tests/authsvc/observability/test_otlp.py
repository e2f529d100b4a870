"""A collector receives spans and metrics of a running server."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import requests
from django.utils import timezone
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

import authsvc
from tests.fakes.collector import Collector, Span
from tests.fakes.http_peer import HttpPeer, Response
from tests.live import servers
from tokens.jwt import access_tokens

Serve = Callable[..., servers.LiveServer]

ALL_ON = {"AUTH_TRACING_ENABLED": "true", "AUTH_METRICS_ENABLED": "true"}
PASSWORD = "correct horse of a secret story"
LINK_TOKEN = "ab" * 28
KEY = "key-of-the-template-server"
API_KEY = "key-of-the-collector"


def request_to(path: str) -> Callable[[Span], bool]:
    return lambda span: span.name == "api" and span.attributes.get("url.path") == path


def beneath(parent: Span, name: str) -> Callable[[Span], bool]:
    return lambda span: span.parent_id == parent.id and span.name == name


def administrator() -> dict[str, str]:
    token = access_tokens.issue_service_token(role="service_role", lifetime=timedelta(minutes=5), at=timezone.now())
    return {"Authorization": f"Bearer {token}"}


def value_of(metric: Any, **labels: object) -> float:
    """The sum of the points with these labels, of a metric that is no histogram."""
    points = (metric.sum or metric.gauge).data_points
    return sum(
        float(p.as_double) for p in points if labels.items() <= {a.key: plain(a.value) for a in p.attributes}.items()
    )


def plain(value: Any) -> object:
    return getattr(value, value.WhichOneof("value"))


def test_spans_and_metrics_over_http_hold_no_secret(serve: Serve) -> None:
    with Collector() as collector, HttpPeer() as templates:
        templates.respond(Response(body=b"<p>{{ .ConfirmationURL }}</p>"))
        server = serve(
            **ALL_ON,
            **collector.environment,
            OTEL_EXPORTER_OTLP_HEADERS=f"api-key={API_KEY}",
            OTEL_RESOURCE_ATTRIBUTES="team=accounts",
            AUTH_MAILER_AUTOCONFIRM="true",
            AUTH_MAILER_TEMPLATES_RECOVERY=f"{templates.url}/letter.html?key={KEY}",
        )
        user_id = uuid4()
        shown = requests.get(f"{server.url}/admin/users/{user_id}", headers=administrator(), timeout=60)
        account = {"email": "ann@example.com", "password": PASSWORD}
        assert requests.post(f"{server.url}/signup", json=account, timeout=60).ok
        signed_in = requests.post(f"{server.url}/token?grant_type=password", json=account, timeout=60).json()
        bearer = {"Authorization": f"Bearer {signed_in['access_token']}"}
        assert requests.get(f"{server.url}/user", headers=bearer, timeout=60).ok
        requests.get(f"{server.url}/verify?type=recovery&token={LINK_TOKEN}", allow_redirects=False, timeout=60)
        assert requests.post(f"{server.url}/recover", json={"email": "ann@example.com"}, timeout=60).ok
        unknown = requests.get(f"{server.url}/nowhere", timeout=60)
        assert (shown.status_code, unknown.status_code) == (404, 404)

        span = collector.wait_for_span(request_to(f"/admin/users/{user_id}"))
        expected = {
            "http.method": "GET",
            "http.request.method": "GET",
            "http.route": "/admin/users/{user_id}",
            "http.route.params.user_id": str(user_id),
            "http.response.status_code": 404,
            "auth.error_code": "user_not_found",
        }
        assert expected.items() <= span.attributes.items()
        assert {"auth.version": authsvc.__version__, "team": "accounts"}.items() <= span.resource.items()
        statement = collector.wait_for_span(beneath(span, "SELECT"))
        assert statement.attributes["db.statement"].lstrip().startswith("SELECT")
        assert "http.route" not in collector.wait_for_span(request_to("/nowhere")).attributes
        assert collector.wait_for_span(request_to("/verify")).attributes["http.route"] == "/verify"

        job = collector.wait_for_span(lambda span: span.attributes.get("auth.job") == "mailer.deliver")
        call = collector.wait_for_span(beneath(job, "GET"))
        assert call.attributes["server.address"] == "127.0.0.1"
        assert templates.received[0].headers["traceparent"].startswith(f"00-{call.trace_id}-{call.id}-")

        responses = collector.wait_for_metric(
            "django_http_responses_total_by_status_view_method",
            lambda metric: value_of(metric, status="404", view="noroute") == 1,
        )
        assert value_of(responses, view="/nowhere") == 0
        collector.wait_for_metric("auth_queue_jobs")
        points = collector.metrics["django_http_requests_latency_seconds_by_view_method"].histogram.data_points
        assert points
        assert all(sum(point.bucket_counts) == point.count for point in points)
        assert {"auth.version": authsvc.__version__}.items() <= collector.resources[-1].items()
        assert server.stop() == 0

        exported = b"".join(collector.raw)
        access_token, refresh_token = signed_in["access_token"], signed_in["refresh_token"]
        for secret in (PASSWORD, LINK_TOKEN, KEY, API_KEY, access_token, refresh_token, "ann@example.com"):
            assert secret.encode() not in exported
        assert b"token=" not in exported
        assert API_KEY not in server.log.read_text()


@pytest.mark.parametrize("program", ["granian", "gunicorn"])
def test_one_process_exports_installation_metrics_until_it_ends(program: str, serve: Serve) -> None:
    with Collector() as collector:
        serve(http_server=program, AUTH_METRICS_ENABLED="true", **collector.environment)
        collector.wait_for_metric("auth_queue_jobs")
        (first,) = {pid for pid, names in exported_by(collector) if "auth_queue_jobs" in names}
        collector.wait(lambda: {pid for pid, names in exported_by(collector) if "auth_queue_jobs" not in names})
        os.kill(first, signal.SIGKILL)
        collector.wait(
            lambda: any(pid != first and "auth_queue_jobs" in names for pid, names in exported_by(collector))
        )


def exported_by(collector: Collector) -> list[tuple[int, set[str]]]:
    """The process ID and the metric names of every message."""
    messages: list[tuple[int, set[str]]] = []
    for raw in list(collector.raw):
        (group,) = metrics_service_pb2.ExportMetricsServiceRequest.FromString(raw).resource_metrics
        (pid,) = [
            attribute.value.int_value for attribute in group.resource.attributes if attribute.key == "process.pid"
        ]
        messages.append((pid, {metric.name for scope in group.scope_metrics for metric in scope.metrics}))
    return messages


def test_pending_data_is_exported_over_grpc_when_the_server_stops(serve: Serve) -> None:
    trace_id, parent_id = secrets.token_hex(16), secrets.token_hex(8)
    with Collector("grpc") as collector:
        later = {"OTEL_BSP_SCHEDULE_DELAY": "3600000", "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}
        sampling = {"OTEL_TRACES_SAMPLER": "parentbased_always_off"}
        server = serve("gunicorn", **{**ALL_ON, **collector.environment, **later, **sampling})
        for flag, path in (("01", "/settings"), ("00", "/health")):
            joined = {"traceparent": f"00-{trace_id}-{parent_id}-{flag}"}
            assert requests.get(server.url + path, headers=joined, timeout=60).ok
        assert requests.get(f"{server.url}/settings", timeout=60).ok
        assert collector.spans == []
        assert server.stop() == 0

        (span,) = [span for span in collector.spans if span.name == "api"]
        assert (span.trace_id, span.parent_id) == (trace_id, parent_id)
        assert span.attributes["url.path"] == "/settings"
        assert value_of(collector.metrics["django_http_responses_total_by_status_view_method"], status="200") > 0


def test_a_silent_collector_and_an_occupied_port_delay_no_request(serve: Serve) -> None:
    with HttpPeer() as silent, socket.socket() as taken:
        silent.respond(Response(hang=True))
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listener = {
            "AUTH_METRICS_EXPORTER": "prometheus",
            "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(taken.getsockname()[1]),
        }
        server = serve(**ALL_ON, **listener, OTEL_EXPORTER_OTLP_ENDPOINT=silent.url, OTEL_BSP_SCHEDULE_DELAY="50")
        for _ in range(20):
            assert requests.get(f"{server.url}/settings", timeout=60).ok
        assert server.stop() == 0
        assert "unable to start metrics listener" in server.log.read_text()
        assert silent.received
