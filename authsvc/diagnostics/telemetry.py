"""The checks of `manage.py doctor` for traces and metrics: libraries, collector and listener. Exports nothing."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from authsvc import conf
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, unused, warning
from authsvc.observability import otlp
from authsvc.outgoing import http

_TIMEOUT_SECONDS = 5.0
_MAX_PAGE_BYTES = 16_777_216
_OTLP_MODULES = {"traces": "authsvc.observability.tracing", "metrics": "authsvc.observability.otlp_metrics"}


class TelemetryDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        config = conf.current().telemetry
        yield from _check_traces(config)
        yield from _check_metrics(config)


def _check_traces(config: conf.Telemetry) -> Iterator[CheckResult]:
    if config.traces:
        yield from _check_otlp("traces", config)
    else:
        yield unused("traces", "not exported", "Set AUTH_TRACING_ENABLED=true and OTEL_EXPORTER_OTLP_ENDPOINT.")


def _check_metrics(config: conf.Telemetry) -> Iterator[CheckResult]:
    if config.metrics == "prometheus":
        yield _check_import("metrics", "authsvc.observability.prometheus") or _check_listener(config)
    elif config.metrics:
        yield from _check_otlp("metrics", config)
    else:
        yield unused("metrics", "not exported", "Set AUTH_METRICS_ENABLED=true and AUTH_METRICS_EXPORTER.")


def _check_import(subject: str, module: str) -> CheckResult | None:
    try:
        import_module(module)
    except Exception as error:  # noqa: BLE001  (incompatible libraries raise anything)
        return failure(subject, f"cannot load the libraries: {error}", "pip install -r requirements.server.lock")
    return None


def _check_otlp(signal: str, config: conf.Telemetry) -> Iterator[CheckResult]:
    """Check the export of a signal, `traces` or `metrics`, to a collector."""
    if fault := _check_import(signal, _OTLP_MODULES[signal]):
        yield fault
        return
    variables = _Variables(config, signal)
    try:
        otlp.exporter_class(config, signal)
    except ValueError:
        remedy = f"Set OTEL_EXPORTER_OTLP_PROTOCOL to {' or '.join(otlp.EXPORTERS)}."
        yield failure(signal, f"unsupported protocol {variables.protocol}", remedy)
    except Exception as error:  # noqa: BLE001  (incompatible libraries raise anything)
        yield failure(signal, f"cannot load the libraries: {error}", "pip install -r requirements.server.lock")
    else:
        yield _check_collector(signal, variables)


@dataclass(frozen=True, slots=True)
class _Variables:
    """The standard variables for one signal, as the exporters read them."""

    config: conf.Telemetry
    signal: str

    def value(self, name: str) -> str:
        for variable in (f"OTEL_EXPORTER_OTLP_{self.signal.upper()}_{name}", f"OTEL_EXPORTER_OTLP_{name}"):
            if value := self.config.variables.get(variable):
                return value.reveal()
        return ""

    @property
    def protocol(self) -> str:
        return otlp.protocol(self.config, self.signal)

    def address(self) -> tuple[str, int, bool]:
        """Host, port, and whether TLS is used. Raises ValueError, whose text may hold a password."""
        if self.protocol == "grpc":
            return self._grpc_address()
        parts = urlsplit(self.value("ENDPOINT") or "http://localhost:4318")
        ports = {"http": 80, "https": 443}
        if parts.scheme not in ports or not parts.hostname:
            raise ValueError("not an http(s) URL")
        return parts.hostname, parts.port or ports[parts.scheme], parts.scheme == "https"

    def _grpc_address(self) -> tuple[str, int, bool]:
        endpoint = self.value("ENDPOINT") or "http://localhost:4317"
        scheme, parts = urlsplit(endpoint).scheme, urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        if not parts.hostname:
            raise ValueError("no host")
        insecure = self.value("INSECURE")
        is_insecure = insecure.lower() == "true" if insecure else scheme == "http"
        return parts.hostname, parts.port or 443, scheme == "https" or not is_insecure


def _check_collector(subject: str, variables: _Variables) -> CheckResult:
    remedy = "Check OTEL_EXPORTER_OTLP_ENDPOINT"
    try:
        host, port, uses_tls = variables.address()
    except ValueError:
        # gRPC accepts other kinds of addresses, such as local sockets.
        result = warning if variables.protocol == "grpc" else failure
        return result(subject, "cannot parse the address of the collector", f"{remedy}.")
    address = f"{host}:{port}"
    url = f"{'https' if uses_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    if _uses_proxy(variables, url):
        return unused(subject, f"{address} is behind a proxy of the environment and was not checked")
    try:
        with closing(socket.create_connection((host, port), _TIMEOUT_SECONDS)) as connection:
            if uses_tls:
                _tls_context(variables, url).wrap_socket(connection, server_hostname=host).close()
    except (OSError, ValueError) as error:
        if uses_tls:
            remedy += ", …_CERTIFICATE, …_CLIENT_CERTIFICATE, …_CLIENT_KEY"
        remedy += ", that the collector runs, and that this host can reach it."
        return failure(subject, f"{address}: {type(error).__name__}: {error}", remedy)
    return ok(subject, f"{address} accepts connections{' with TLS' if uses_tls else ''}")


def _uses_proxy(variables: _Variables, url: str) -> bool:
    if variables.protocol != "grpc":
        return bool(http.proxy(url))
    environment = conf.process_environment()
    # gRPC has too many rules for exceptions to repeat them here.
    return any(environment.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy"))


def _tls_context(variables: _Variables, url: str) -> ssl.SSLContext:
    """The certificates that the exporter uses. Raises OSError for a file that cannot be read."""
    is_grpc = variables.protocol == "grpc"
    authority = variables.value("CERTIFICATE")
    grpc_roots = conf.process_environment().get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH") or http.AUTHORITIES
    roots = authority or (grpc_roots if is_grpc else http.authorities(url))
    is_directory = Path(roots).is_dir()
    context = ssl.create_default_context(cafile=None if is_directory else roots, capath=roots if is_directory else None)
    certificate = variables.value("CLIENT_CERTIFICATE")
    # gRPC uses it only together with an authority.
    if certificate and (authority or not is_grpc):
        # An empty password: without one OpenSSL would prompt at the terminal.
        context.load_cert_chain(certificate, variables.value("CLIENT_KEY") or None, password="")
    return context


def _check_listener(config: conf.Telemetry) -> CheckResult:
    address = (config.prometheus_host, config.prometheus_port)
    shown = f"{config.prometheus_host}:{config.prometheus_port}"
    try:
        with socket.socket(socket.AF_INET6 if ":" in config.prometheus_host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _serves_metrics(address):
            return ok("metrics", f"served to Prometheus at {shown}")
        remedy = "Set OTEL_EXPORTER_PROMETHEUS_HOST and OTEL_EXPORTER_PROMETHEUS_PORT to a free address."
        return failure("metrics", f"{shown}: {error.strerror}", remedy)
    return ok("metrics", f"will be served to Prometheus at {shown}, which is free")


def _serves_metrics(address: tuple[str, int]) -> bool:
    """True when the program that listens there is this service."""
    try:
        with socket.create_connection(address, _TIMEOUT_SECONDS) as connection, connection.makefile("rb") as response:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"\nauth_running " in response.read(_MAX_PAGE_BYTES)
    except OSError:
        return False
