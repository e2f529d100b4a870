"""What a process loads for telemetry: nothing while it is off, and without its libraries an error line instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests import live
from tests.settings import ENVIRONMENT

OFF: dict[str, str] = {}
TRACES = {"AUTH_TRACING_ENABLED": "true"}
FIGURES = {"AUTH_METRICS_ENABLED": "true"}
LIBRARIES = ("opentelemetry", "prometheus_client", "grpc", "google.protobuf")

SERVE_ONE = """
import io, json, sys
sys.modules.update({name: None for name in BLOCKED})
from authsvc.wsgi import application
environ = {
    "REQUEST_METHOD": "GET", "PATH_INFO": "/health", "QUERY_STRING": "", "SERVER_NAME": "x", "SERVER_PORT": "1",
    "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr, "REMOTE_ADDR": "127.0.0.1",
}
statuses = []
answer = application(environ, lambda status, headers: statuses.append(status))
answer.close()
loaded = sorted({name for name in LIBRARIES if sys.modules.get(name) is not None})
print(json.dumps({"status": statuses[0], "loaded": loaded}))
"""


def serve_one(env: dict[str, str], *, blocked: tuple[str, ...] = ()) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a process says that answers one request and ends, and its log."""
    text = SERVE_ONE.replace("BLOCKED", repr(blocked)).replace("LIBRARIES", repr(LIBRARIES))
    own = {"DATABASE_URL": "postgres://nobody@127.0.0.1:9/none", "AUTH_MAILER_WORKER_ENABLED": "false"}
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=live.PROJECT,
        env={"PATH": os.environ["PATH"], **ENVIRONMENT, **own, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    log = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    return json.loads(done.stdout), [line for line in log if line["level"] == "error"]


@pytest.mark.parametrize(
    "env",
    [
        OFF,
        {**TRACES, "AUTH_TRACING_EXPORTER": "other"},
        {**FIGURES, "AUTH_METRICS_EXPORTER": "other"},
    ],
    ids=["off", "other traces", "other figures"],
)
def test_what_is_off_is_not_even_loaded(env: dict[str, str]) -> None:
    said, errors = serve_one(env)
    assert said == {"status": "200 OK", "loaded": []}
    assert errors == []


def test_without_the_libraries_each_part_has_an_error_line_and_requests_are_answered() -> None:
    said, errors = serve_one({**TRACES, **FIGURES}, blocked=("opentelemetry", "prometheus_client"))
    assert said == {"status": "200 OK", "loaded": []}
    assert sorted(line["msg"] for line in errors) == ["unable to start metrics", "unable to start tracing"]
    assert all("pip install authsvc[telemetry]" in line["error"] for line in errors)


def test_a_protocol_that_is_not_spoken_has_an_error_line_and_requests_are_answered() -> None:
    said, errors = serve_one({**TRACES, **FIGURES, "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"})
    assert said["status"] == "200 OK"
    text = 'unsupported OpenTelemetry exporter protocol "carrier-pigeon"'
    assert [line["msg"] for line in errors] == [text, text]
