"""What a process loads for telemetry: nothing while it is off, and without its libraries an error line instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live import servers
from tests.settings import ENVIRONMENT

OFF: dict[str, str] = {}
TRACES = {"AUTH_TRACING_ENABLED": "true"}
FIGURES = {"AUTH_METRICS_ENABLED": "true"}
PROMETHEUS = {
    "AUTH_METRICS_EXPORTER": "prometheus",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
    "OTEL_EXPORTER_PROMETHEUS_PORT": str(servers.free_port()),
}
LIBRARIES = ("opentelemetry", "prometheus_client", "grpc", "google.protobuf")

SERVE_ONE = """
import io, json, sys
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
print(json.dumps({"status": statuses[0], "loaded": loaded}))
"""


def serve_one(
    env: dict[str, str], *, blocked: tuple[str, ...] = (), changed: str = ""
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a process says that answers one request and ends, and its errors; `changed` is done to the libraries."""
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
    assert all("pip install -r requirements.server.lock" in line["error"] for line in errors)


@pytest.mark.parametrize(
    ("env", "holder", "lacking", "told"),
    [
        (TRACES, "opentelemetry.sdk.trace", "TracerProvider", {"unable to start tracing"}),
        (
            TRACES,
            "opentelemetry.propagators.textmap",
            "Getter",
            {"unable to trace requests", "unable to start tracing"},
        ),
        ({**FIGURES, **PROMETHEUS}, "prometheus_client.mmap_dict", "MmapedDict", {"unable to start metrics"}),
        ({**FIGURES, **PROMETHEUS}, "prometheus_client", "Histogram._metric_init", {"unable to start metrics"}),
    ],
    ids=["tracing", "middleware", "metrics", "histograms"],
)
def test_with_libraries_that_lack_something_the_part_is_left_out_and_requests_are_answered(
    env: dict[str, str], holder: str, lacking: str, told: set[str]
) -> None:
    said, errors = serve_one(env, changed=f"import {holder} as holder; del holder.{lacking}")
    assert said["status"] == "200 OK"
    assert {line["msg"] for line in errors} == told
    assert all(lacking.rpartition(".")[2] in line["error"] for line in errors)


def test_whatever_has_the_name_of_a_folder_for_figures_another_is_made_and_old_ones_go(tmp_path: Path) -> None:
    (tmp_path / "authsvc-telemetry-link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "authsvc-telemetry-file").touch()
    old = tmp_path / "authsvc-telemetry-old"
    old.mkdir()
    (old / "owner").touch()
    said, errors = serve_one({**FIGURES, **PROMETHEUS, "TMPDIR": str(tmp_path)})
    assert said == {"status": "200 OK", "loaded": ["prometheus_client"]}
    assert errors == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["authsvc-telemetry-file", "authsvc-telemetry-link"]


def test_a_protocol_that_is_not_spoken_has_an_error_line_and_requests_are_answered() -> None:
    said, errors = serve_one({**TRACES, **FIGURES, "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"})
    assert said["status"] == "200 OK"
    text = 'unsupported OpenTelemetry exporter protocol "carrier-pigeon"'
    assert [line["msg"] for line in errors] == [text, text]
