"""What `manage.py doctor` says of traces and figures: whether they arrive, from real sockets, and without a secret."""

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
from authsvc.diagnostics.checks import Circumstances, Finding, Outcome
from authsvc.diagnostics.telemetry import Telemetry
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import Answer, HttpPeer
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
from authsvc.diagnostics.checks import Circumstances
from authsvc.diagnostics.telemetry import Telemetry
found = [[each.subject, each.outcome, each.remedy] for each in Telemetry().examine(Circumstances(public_url=""))]
loaded = sorted(name for name in ("opentelemetry", "prometheus_client", "grpc") if sys.modules.get(name) is not None)
print(json.dumps({"found": found, "loaded": loaded}))
"""


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    """Takes connections and says nothing."""
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
    """`traced(OTEL_…="…")` switches traces on, with these variables of the standard."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)

    def configure(**variables: str) -> None:
        protocol = variables.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        given = {name: Secret(value) for name, value in variables.items()}
        auth_config(telemetry={"tracing_enabled": True, "otlp_protocol": protocol, "variables": given})

    return configure


def look(subject: str) -> Finding:
    """The one finding about it, with a remedy where one is due."""
    [found] = [each for each in Telemetry().examine(Circumstances(public_url="")) if each.subject == subject]
    assert found.remedy or found.outcome in (Outcome.OK, Outcome.UNUSED)
    return found


def examine_apart(env: dict[str, str], *, blocked: tuple[str, ...] = ()) -> dict[str, Any]:
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
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_while_both_are_off_nothing_is_loaded() -> None:
    said = examine_apart({})
    assert [(subject, outcome) for subject, outcome, _ in said["found"]] == [
        ("traces", "unused"),
        ("figures", "unused"),
    ]
    assert said["loaded"] == []


@pytest.mark.parametrize("exporter", ["opentelemetry", "prometheus"])
def test_libraries_that_are_missing_are_told_with_how_to_get_them(exporter: str) -> None:
    on = {"AUTH_TRACING_ENABLED": "true", "AUTH_METRICS_ENABLED": "true", "AUTH_METRICS_EXPORTER": exporter}
    said = examine_apart(on, blocked=("opentelemetry", "prometheus_client"))
    remedy = "pip install -r requirements.server.lock"
    assert said["found"] == [["traces", "failure", remedy], ["figures", "failure", remedy]]


@pytest.mark.parametrize("changed", [{"tracing_exporter": "other"}, {"otlp_protocol": "carrier-pigeon"}])
def test_an_exporter_or_a_protocol_that_is_not_known_is_told_for_traces(
    changed: dict[str, str], auth_config: ChangeConfig
) -> None:
    auth_config(telemetry={"tracing_enabled": True, **changed})
    found = look("traces")
    assert found.outcome is Outcome.FAILURE
    assert "is called" in found.said


@pytest.mark.parametrize("changed", [{"metrics_exporter": "other"}, {"otlp_protocol": "carrier-pigeon"}])
def test_an_exporter_or_a_protocol_that_is_not_known_is_told_for_figures(
    changed: dict[str, str], auth_config: ChangeConfig
) -> None:
    auth_config(telemetry={"metrics_enabled": True, **changed})
    found = look("figures")
    assert found.outcome is Outcome.FAILURE
    assert "is called" in found.said


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"ENDPOINT": "http://{place}"}, id="HTTP"),
        pytest.param(
            {"ENDPOINT": "http://127.0.0.1:9", "TRACES_ENDPOINT": "http://{place}/v1/traces"}, id="of its own"
        ),
        pytest.param({"ENDPOINT": "http://{place}", "METRICS_ENDPOINT": "http://127.0.0.1:9"}, id="not of the other"),
        pytest.param({"ENDPOINT": "http://{place}", "PROTOCOL": "grpc"}, id="gRPC"),
        pytest.param({"ENDPOINT": "{place}", "PROTOCOL": "grpc", "INSECURE": "True"}, id="gRPC without a scheme"),
        pytest.param(
            {"ENDPOINT": "{place}", "PROTOCOL": "grpc", "INSECURE": "false", "TRACES_INSECURE": "true"},
            id="gRPC, not encrypted for traces",
        ),
    ],
)
def test_a_collector_that_takes_connections_is_well_and_gets_nothing(
    variables: dict[str, str], traced: Configure, collector: socket.socket
) -> None:
    place = f"{HOST}:{collector.getsockname()[1]}"
    traced(**{f"OTEL_EXPORTER_OTLP_{name}": value.format(place=place) for name, value in variables.items()})
    found = look("traces")
    assert (found.outcome, found.said) == (Outcome.OK, f"{place} takes connections")
    taken, _ = collector.accept()
    with taken:
        assert taken.recv(1) == b""


def test_figures_go_where_their_own_variable_says(auth_config: ChangeConfig, collector: socket.socket) -> None:
    elsewhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": Secret("http://127.0.0.1:9")}
    own = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": Secret(f"http://{HOST}:{collector.getsockname()[1]}/v1/metrics")}
    auth_config(telemetry={"metrics_enabled": True, "variables": elsewhere})
    assert look("figures").outcome is Outcome.FAILURE
    auth_config(telemetry={"variables": {**elsewhere, **own}})
    assert look("figures").outcome is Outcome.OK


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_the_certificate_of_a_collector_is_looked_at(protocol: str, traced: Configure, tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    with HttpPeer(tls=tls) as peer:
        endpoint = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": peer.url}
        traced(**endpoint)
        assert "CERTIFICATE_VERIFY_FAILED" in look("traces").said
        traced(**endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(authority))
        found = look("traces")
        assert (found.outcome, found.said) == (Outcome.OK, f"{HOST}:{peer.port} takes connections, encrypted")
        traced(**endpoint, OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=str(tmp_path / "none"))
        assert look("traces").outcome is Outcome.FAILURE
        assert peer.received == []


def test_grpc_without_a_scheme_is_encrypted(traced: Configure, tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    with HttpPeer(tls=tls) as peer:
        traced(
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"{HOST}:{peer.port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(authority),
        )
        assert look("traces").said.endswith("takes connections, encrypted")


def test_a_collector_that_asks_for_a_certificate_gets_the_one_that_is_set(traced: Configure, tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    tls.load_verify_locations(authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    # In 1.3 a client learns only with the first answer that it was refused.
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with HttpPeer(tls=tls) as peer:
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": peer.url, "OTEL_EXPORTER_OTLP_CERTIFICATE": str(authority)}
        traced(**given)
        assert look("traces").outcome is Outcome.FAILURE
        traced(**given, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=str(tmp_path / f"{HOST}.pem"))
        assert look("traces").outcome is Outcome.OK


@pytest.mark.parametrize(
    ("endpoint", "protocol", "expected"),
    [
        ("http://me:hunter2@127.0.0.1:9", "http/protobuf", Outcome.FAILURE),
        ("http://me:hunter2@127.0.0.1:9/hunter2?key=hunter2", "grpc", Outcome.FAILURE),
        ("http://me:hunter2@[::1", "http/protobuf", Outcome.FAILURE),
        ("http://collector:hunter2", "http/protobuf", Outcome.FAILURE),
        ("collector:4318/hunter2", "http/protobuf", Outcome.FAILURE),
        ("unix:///run/hunter2", "grpc", Outcome.WARNING),
    ],
)
def test_a_collector_that_cannot_be_reached_is_told_without_a_secret(
    endpoint: str, protocol: str, expected: Outcome, traced: Configure
) -> None:
    traced(
        OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        OTEL_EXPORTER_OTLP_HEADERS="api-key=hunter2",
    )
    found = look("traces")
    assert found.outcome is expected
    assert "hunter2" not in found.said + found.remedy


def test_a_protocol_of_one_kind_counts_for_that_kind(traced: Configure, collector: socket.socket) -> None:
    port = collector.getsockname()[1]
    # An address that gRPC understands and HTTP does not.
    traced(OTEL_EXPORTER_OTLP_ENDPOINT=f"{HOST}:{port}", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc")
    assert f"{HOST}:{port}" in look("traces").said
    traced(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{HOST}:{port}", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="carrier-pigeon")
    assert "carrier-pigeon" in look("traces").said


def test_a_collector_behind_a_proxy_of_the_environment_is_not_looked_at(
    traced: Configure, collector: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced(OTEL_EXPORTER_OTLP_ENDPOINT="http://collector.invalid:4318")
    monkeypatch.setenv("http_proxy", "http://me:hunter2@proxy.invalid:3128")
    found = look("traces")
    assert found.outcome is Outcome.UNUSED
    assert "hunter2" not in found.said
    monkeypatch.setenv("no_proxy", "collector.invalid")
    assert look("traces").outcome is Outcome.FAILURE


def test_grpc_goes_by_the_proxies_it_knows(
    traced: Configure, collector: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"http://{HOST}:{collector.getsockname()[1]}"
    traced(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert look("traces").outcome is Outcome.OK
    monkeypatch.setenv("grpc_proxy", "http://proxy.invalid:3128")
    assert look("traces").outcome is Outcome.UNUSED


def test_grpc_takes_other_authorities_than_http(
    traced: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, authority = server_tls(tmp_path, host=HOST)
    with HttpPeer(tls=tls) as peer:
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": peer.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        traced(**given)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
        assert look("traces").outcome is Outcome.FAILURE
        monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(authority))
        assert look("traces").outcome is Outcome.OK


def figures_for_prometheus(port: int, host: str = HOST) -> dict[str, Any]:
    return {
        "metrics_enabled": True,
        "metrics_exporter": "prometheus",
        "prometheus_host": host,
        "prometheus_port": port,
    }


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_an_address_for_prometheus_that_is_free_is_well(host: str, auth_config: ChangeConfig) -> None:
    port = servers.free_port()
    auth_config(telemetry=figures_for_prometheus(port, host))
    assert look("figures").outcome is Outcome.OK
    assert not servers.is_listening(port)


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_for_prometheus_that_is_not_of_this_host_is_told(host: str, auth_config: ChangeConfig) -> None:
    auth_config(telemetry=figures_for_prometheus(servers.free_port(), host))
    found = look("figures")
    assert found.outcome is Outcome.FAILURE
    assert host in found.said


def test_somebody_else_at_the_port_for_prometheus_is_told(auth_config: ChangeConfig) -> None:
    with HttpPeer() as peer:
        peer.answer(Answer(body=b"# other figures\nup 1\n", close=True))
        auth_config(telemetry=figures_for_prometheus(peer.port))
        found = look("figures")
        assert found.outcome is Outcome.FAILURE
        assert "in use" in found.said


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_beside_a_running_server_its_figures_at_the_port_are_well(
    host: str, serve: Callable[..., servers.LiveServer], auth_config: ChangeConfig
) -> None:
    port = servers.free_port()
    serve(
        AUTH_METRICS_ENABLED="true",
        AUTH_METRICS_EXPORTER="prometheus",
        OTEL_EXPORTER_PROMETHEUS_HOST=host,
        OTEL_EXPORTER_PROMETHEUS_PORT=str(port),
    )
    deadline = time.monotonic() + 30
    while not servers.is_listening(port):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    auth_config(telemetry=figures_for_prometheus(port, host))
    found = look("figures")
    assert (found.outcome, found.said) == (Outcome.OK, f"Prometheus gets them at {host}:{port}")
