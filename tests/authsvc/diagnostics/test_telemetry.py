"""`manage.py doctor` checks the export of traces and metrics, over real sockets, and shows no secret."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from authsvc.conf import Secret
from authsvc.diagnostics.registry import CheckOutcome, CheckResult, DiagnosticContext
from authsvc.diagnostics.telemetry import TelemetryDiagnostic
from tests import ports
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response
from tests.fakes.smtp import server_tls
from tests.live import servers
from tests.settings import ENVIRONMENT

Configure = Callable[..., None]

HOST = "127.0.0.1"
EXAMINE = """
import sys
sys.modules.update({name: None for name in BLOCKED})
import json, django
django.setup()
from authsvc.diagnostics.registry import DiagnosticContext
from authsvc.diagnostics.telemetry import TelemetryDiagnostic
results = TelemetryDiagnostic().run(DiagnosticContext(public_url=""))
checked = [[result.subject, result.outcome, result.remedy] for result in results]
loaded = sorted(name for name in ("opentelemetry", "prometheus_client", "grpc") if sys.modules.get(name) is not None)
print(json.dumps({"results": checked, "loaded": loaded}))
"""


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    """A server that accepts connections and sends nothing."""
    with socket.create_server((HOST, 0)) as listening:
        yield listening


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")


@pytest.fixture
def traced(auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """`traced(OTEL_…="…")` enables traces with these standard variables."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)

    def configure(**variables: str) -> None:
        protocol = variables.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        secrets = {name: Secret(value) for name, value in variables.items()}
        auth_config(telemetry={"tracing_enabled": True, "otlp_protocol": protocol, "variables": secrets})

    return configure


def check_subject(subject: str) -> CheckResult:
    """The only result about the subject; a problem has a remedy."""
    [result] = [
        finding for finding in TelemetryDiagnostic().run(DiagnosticContext(public_url="")) if finding.subject == subject
    ]
    assert result.remedy or result.outcome in (CheckOutcome.OK, CheckOutcome.UNUSED)
    return result


def examine_in_process(env: dict[str, str], *, blocked: tuple[str, ...] = ()) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", EXAMINE.replace("BLOCKED", repr(blocked))],
        cwd=servers.PROJECT,
        env={
            "PATH": os.environ["PATH"],
            "DJANGO_SETTINGS_MODULE": "authsvc.settings",
            **ENVIRONMENT,
            "DATABASE_URL": "postgres://nobody@127.0.0.1:9/none",
            **env,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def test_nothing_is_loaded_while_both_are_off() -> None:
    output = examine_in_process({})
    assert [(subject, outcome) for subject, outcome, _ in output["results"]] == [
        ("traces", "unused"),
        ("metrics", "unused"),
    ]
    assert output["loaded"] == []


def test_missing_libraries_are_failures_with_a_remedy() -> None:
    on = {"AUTH_TRACING_ENABLED": "true", "AUTH_METRICS_ENABLED": "true", "AUTH_METRICS_EXPORTER": "opentelemetry"}
    output = examine_in_process(on, blocked=("opentelemetry",))
    remedy = "pip install -r requirements.server.lock"
    assert output["results"] == [["traces", "failure", remedy], ["metrics", "failure", remedy]]


@pytest.mark.parametrize("signal", ["traces", "metrics"])
def test_an_unsupported_protocol_is_a_failure(signal: str, auth_config: ChangeConfig) -> None:
    auth_config(telemetry={"tracing_enabled": True, "metrics_enabled": True, "otlp_protocol": "carrier-pigeon"})
    result = check_subject(signal)
    assert result.outcome is CheckOutcome.FAILURE
    assert "unsupported protocol carrier-pigeon" in result.message


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"ENDPOINT": "http://{place}"}, id="HTTP"),
        pytest.param(
            {"ENDPOINT": "http://127.0.0.1:9", "TRACES_ENDPOINT": "http://{place}/v1/traces"}, id="traces endpoint"
        ),
        pytest.param(
            {"ENDPOINT": "http://{place}", "METRICS_ENDPOINT": "http://127.0.0.1:9"}, id="metrics endpoint ignored"
        ),
        pytest.param({"ENDPOINT": "http://{place}", "PROTOCOL": "grpc"}, id="gRPC"),
        pytest.param({"ENDPOINT": "{place}", "PROTOCOL": "grpc", "INSECURE": "True"}, id="gRPC without a scheme"),
        pytest.param(
            {"ENDPOINT": "{place}", "PROTOCOL": "grpc", "INSECURE": "false", "TRACES_INSECURE": "true"},
            id="gRPC, not encrypted for traces",
        ),
    ],
)
def test_a_collector_that_accepts_connections_passes_and_receives_nothing(
    variables: dict[str, str], traced: Configure, collector: socket.socket
) -> None:
    place = f"{HOST}:{collector.getsockname()[1]}"
    traced(**{f"OTEL_EXPORTER_OTLP_{name}": value.format(place=place) for name, value in variables.items()})
    result = check_subject("traces")
    assert (result.outcome, result.message) == (CheckOutcome.OK, f"{place} accepts connections")
    taken, _ = collector.accept()
    with taken:
        assert taken.recv(1) == b""


def test_metrics_use_the_endpoint_of_their_own_variable(auth_config: ChangeConfig, collector: socket.socket) -> None:
    elsewhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": Secret("http://127.0.0.1:9")}
    own = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": Secret(f"http://{HOST}:{collector.getsockname()[1]}/v1/metrics")}
    auth_config(telemetry={"metrics_enabled": True, "variables": elsewhere})
    assert check_subject("metrics").outcome is CheckOutcome.FAILURE
    auth_config(telemetry={"variables": {**elsewhere, **own}})
    assert check_subject("metrics").outcome is CheckOutcome.OK


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_the_certificate_of_a_collector_is_verified(protocol: str, traced: Configure, tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    with HttpPeer(tls=tls) as peer:
        endpoint = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": peer.url}
        traced(**endpoint)
        assert "CERTIFICATE_VERIFY_FAILED" in check_subject("traces").message
        traced(**endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(authority))
        result = check_subject("traces")
        assert (result.outcome, result.message) == (CheckOutcome.OK, f"{HOST}:{peer.port} accepts connections with TLS")
        traced(**endpoint, OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=str(tmp_path / "none"))
        assert check_subject("traces").outcome is CheckOutcome.FAILURE
        assert peer.received == []


def test_grpc_without_a_scheme_uses_tls(traced: Configure, tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    with HttpPeer(tls=tls) as peer:
        traced(
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"{HOST}:{peer.port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(authority),
        )
        assert check_subject("traces").message.endswith("accepts connections with TLS")


def test_a_collector_that_requests_a_client_certificate_receives_it(traced: Configure, tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    tls.load_verify_locations(authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    # In TLS 1.3 a client receives the rejection only with the first response.
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with HttpPeer(tls=tls) as peer:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": peer.url, "OTEL_EXPORTER_OTLP_CERTIFICATE": str(authority)}
        traced(**variables)
        assert check_subject("traces").outcome is CheckOutcome.FAILURE
        traced(**variables, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=str(tmp_path / f"{HOST}.pem"))
        assert check_subject("traces").outcome is CheckOutcome.OK


@pytest.mark.parametrize(
    ("endpoint", "protocol", "expected"),
    [
        ("http://me:hunter2@127.0.0.1:9", "http/protobuf", CheckOutcome.FAILURE),
        ("http://me:hunter2@127.0.0.1:9/hunter2?key=hunter2", "grpc", CheckOutcome.FAILURE),
        ("http://me:hunter2@[::1", "http/protobuf", CheckOutcome.FAILURE),
        ("http://collector:hunter2", "http/protobuf", CheckOutcome.FAILURE),
        ("collector:4318/hunter2", "http/protobuf", CheckOutcome.FAILURE),
        ("unix:///run/hunter2", "grpc", CheckOutcome.WARNING),
    ],
)
def test_an_unreachable_collector_is_reported_without_a_secret(
    endpoint: str, protocol: str, expected: CheckOutcome, traced: Configure
) -> None:
    traced(
        OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        OTEL_EXPORTER_OTLP_HEADERS="api-key=hunter2",
    )
    result = check_subject("traces")
    assert result.outcome is expected
    assert "hunter2" not in result.message + result.remedy


def test_the_protocol_of_a_signal_applies_to_that_signal(traced: Configure, collector: socket.socket) -> None:
    port = collector.getsockname()[1]
    # An address that gRPC understands and HTTP does not.
    traced(OTEL_EXPORTER_OTLP_ENDPOINT=f"{HOST}:{port}", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc")
    assert f"{HOST}:{port}" in check_subject("traces").message
    traced(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{HOST}:{port}", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="carrier-pigeon")
    assert "carrier-pigeon" in check_subject("traces").message


def test_a_collector_behind_a_proxy_of_the_environment_is_not_checked(
    traced: Configure, collector: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced(OTEL_EXPORTER_OTLP_ENDPOINT="http://collector.invalid:4318")
    monkeypatch.setenv("http_proxy", "http://me:hunter2@proxy.invalid:3128")
    result = check_subject("traces")
    assert result.outcome is CheckOutcome.UNUSED
    assert "hunter2" not in result.message
    monkeypatch.setenv("no_proxy", "collector.invalid")
    assert check_subject("traces").outcome is CheckOutcome.FAILURE


def test_grpc_uses_its_own_proxy_variables(
    traced: Configure, collector: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"http://{HOST}:{collector.getsockname()[1]}"
    traced(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert check_subject("traces").outcome is CheckOutcome.OK
    monkeypatch.setenv("grpc_proxy", "http://proxy.invalid:3128")
    assert check_subject("traces").outcome is CheckOutcome.UNUSED


def test_grpc_uses_other_certificate_authorities_than_http(
    traced: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    with HttpPeer(tls=tls) as peer:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": peer.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        traced(**variables)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
        assert check_subject("traces").outcome is CheckOutcome.FAILURE
        monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(authority))
        assert check_subject("traces").outcome is CheckOutcome.OK


def prometheus_settings(port: int, host: str = HOST) -> dict[str, Any]:
    return {
        "metrics_enabled": True,
        "metrics_exporter": "prometheus",
        "prometheus_host": host,
        "prometheus_port": port,
    }


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_a_free_address_for_prometheus_passes(host: str, auth_config: ChangeConfig) -> None:
    port = ports.free_port()
    auth_config(telemetry=prometheus_settings(port, host))
    assert check_subject("metrics").outcome is CheckOutcome.OK
    assert not ports.is_listening(port)


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_of_another_host_is_a_failure(host: str, auth_config: ChangeConfig) -> None:
    auth_config(telemetry=prometheus_settings(ports.free_port(), host))
    result = check_subject("metrics")
    assert result.outcome is CheckOutcome.FAILURE
    assert host in result.message


def test_another_program_on_the_port_is_a_failure(auth_config: ChangeConfig) -> None:
    with HttpPeer() as peer:
        peer.respond(Response(body=b"# other metrics\nup 1\n", close=True))
        auth_config(telemetry=prometheus_settings(peer.port))
        result = check_subject("metrics")
        assert result.outcome is CheckOutcome.FAILURE
        assert "in use" in result.message


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_the_listener_of_a_running_server_passes(
    host: str, serve: Callable[..., servers.LiveServer], auth_config: ChangeConfig
) -> None:
    port = ports.free_port()
    serve(
        AUTH_METRICS_ENABLED="true",
        AUTH_METRICS_EXPORTER="prometheus",
        OTEL_EXPORTER_PROMETHEUS_HOST=host,
        OTEL_EXPORTER_PROMETHEUS_PORT=str(port),
    )
    auth_config(telemetry=prometheus_settings(port, host))
    deadline = time.monotonic() + 60
    # A scrape fails while another process of the server creates its files.
    while (result := check_subject("metrics")).outcome is not CheckOutcome.OK or not ports.is_listening(port):
        assert time.monotonic() < deadline, result.message
        time.sleep(0.05)
    assert (result.outcome, result.message) == (CheckOutcome.OK, f"served to Prometheus at {host}:{port}")
