"""Disabled telemetry loads no library, and a process serves requests if a library fails."""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from authsvc.observability import otlp
from tests import ports
from tests.live import servers
from tests.settings import ENVIRONMENT

OFF: dict[str, str] = {}
TRACES = {"AUTH_TRACING_ENABLED": "true"}
METRICS = {"AUTH_METRICS_ENABLED": "true"}
PROMETHEUS = {
    "AUTH_METRICS_EXPORTER": "prometheus",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
    "OTEL_EXPORTER_PROMETHEUS_PORT": str(ports.free_port()),
}
LIBRARIES = ("opentelemetry", "prometheus_client", "django_prometheus", "grpc", "google.protobuf")

SERVE_ONE = """
import io, json, os, sys
sys.modules.update({name: None for name in BLOCKED})
CHANGED
from authsvc.wsgi import application
environ = {
    "REQUEST_METHOD": "GET", "PATH_INFO": "/health", "QUERY_STRING": "", "SERVER_NAME": "x", "SERVER_PORT": "1",
    "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr, "REMOTE_ADDR": "127.0.0.1",
}
statuses = []
answer = application(environ, lambda status, headers: statuses.append(status))
answer.close()
loaded = sorted({name for name in LIBRARIES if sys.modules.get(name) is not None})
directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
print(json.dumps({"status": statuses[0], "loaded": loaded, **({"directory": directory} if directory else {})}))
"""


def serve_one(
    env: dict[str, str], *, blocked: tuple[str, ...] = (), changed: str = ""
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Output and error lines of a process that answers one request; `changed` is code that alters the libraries."""
    text = SERVE_ONE.replace("BLOCKED", repr(blocked)).replace("LIBRARIES", repr(LIBRARIES)).replace("CHANGED", changed)
    own = {"DATABASE_URL": "postgres://nobody@127.0.0.1:9/none", "AUTH_MAILER_WORKER_ENABLED": "false"}
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=servers.PROJECT,
        env={"PATH": os.environ["PATH"], **ENVIRONMENT, **own, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    log = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    return json.loads(done.stdout), [line for line in log if line["level"] == "error"]


def test_disabled_telemetry_is_not_loaded() -> None:
    output, errors = serve_one(OFF)
    assert output == {"status": "200 OK", "loaded": []}
    assert errors == []


def test_missing_libraries_are_logged_and_requests_are_served() -> None:
    output, errors = serve_one({**TRACES, **METRICS}, blocked=("opentelemetry",))
    assert output == {"status": "200 OK", "loaded": ["django_prometheus", "prometheus_client"]}
    assert sorted(line["msg"] for line in errors) == ["unable to start metrics", "unable to start tracing"]
    assert all("pip install -r requirements.server.lock" in line["error"] for line in errors)


@pytest.mark.parametrize(
    ("env", "holder", "lacking", "message"),
    [
        (TRACES, "opentelemetry.sdk.trace", "TracerProvider", "unable to start tracing"),
        (
            {**METRICS, **PROMETHEUS},
            "prometheus_client.multiprocess",
            "MultiProcessCollector",
            "unable to start metrics listener",
        ),
    ],
    ids=["tracing", "metrics"],
)
def test_incompatible_libraries_are_logged_and_requests_are_served(
    env: dict[str, str], holder: str, lacking: str, message: str
) -> None:
    output, errors = serve_one(env, changed=f"import {holder} as holder; del holder.{lacking}")
    assert output["status"] == "200 OK"
    assert {line["msg"] for line in errors} == {message}
    assert all(lacking in line["error"] for line in errors)


def test_metric_directories_are_removed_including_those_of_killed_servers() -> None:
    parent = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    unrelated = parent / f"authsvc-metrics-{secrets.token_hex(4)}"
    unrelated.touch()
    leftover = Path(tempfile.mkdtemp(prefix="authsvc-metrics-", dir=parent))
    (leftover / "lock").touch()
    try:
        output, errors = serve_one({**METRICS, **PROMETHEUS})
        used = Path(output.pop("directory"))
        assert used.match(f"{parent}/authsvc-metrics-*")
        assert output == {"status": "200 OK", "loaded": ["django_prometheus", "prometheus_client"]}
        assert errors == []
        assert unrelated.exists()
        assert not leftover.exists()
        assert not used.exists()
    finally:
        unrelated.unlink()


def test_an_unsupported_protocol_is_logged_and_requests_are_served() -> None:
    output, errors = serve_one({**TRACES, **METRICS, "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"})
    assert output["status"] == "200 OK"
    text = 'unsupported OpenTelemetry exporter protocol "carrier-pigeon"'
    assert [line["msg"] for line in errors] == [text, text]


@pytest.fixture
def export_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Members of the log lines about exports; the loggers of the libraries are as before afterwards."""
    libraries = [logging.getLogger(name) for name in ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")]
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in libraries]
    with caplog.at_level(logging.WARNING, otlp.logger.name):
        yield lambda: [vars(record) for record in caplog.records]
    for logger, handlers, propagate, level in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_failed_exports_cause_one_warning_an_hour(
    export_warnings: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 1.0, otlp.WARNING_INTERVAL + 1, otlp.WARNING_INTERVAL + 2])
    monkeypatch.setattr(otlp, "time", SimpleNamespace(monotonic=lambda: next(times)))
    otlp.limit_warnings(is_leader=lambda: True)
    exporter = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    exporter.warning("Transient error %s", "Connection refused")
    assert export_warnings() == []
    for _ in range(2):
        exporter.error("Failed to export spans batch")
    (warning,) = export_warnings()
    assert (warning["levelname"], warning["error"]) == ("WARNING", "Failed to export spans batch")
    assert warning["last_attempt"] == "Transient error Connection refused"
    for _ in range(2):
        logging.getLogger("opentelemetry.sdk._shared_internal").warning("Queue full, dropping Span.")
    assert [line["error"] for line in export_warnings()[1:]] == ["Queue full, dropping Span."]


def test_only_the_leader_warns_of_failed_exports(export_warnings: Callable[[], list[dict[str, Any]]]) -> None:
    otlp.limit_warnings(is_leader=lambda: False)
    logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter").error("Failed to export traces")
    assert export_warnings() == []
