"""What `manage.py doctor` finds out about traces and figures: libraries, collector, listener; nothing is sent."""

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
from authsvc.diagnostics.checks import Circumstances, Finding, failure, ok, unused, warning
from authsvc.observability.telemetry import exporters
from authsvc.outgoing import http

_SECONDS = 5.0
_MOST = 16_777_216
# What a collector is sent: its name in variables, our module for it.
_SIGNALS = {"traces": ("TRACES", "tracing"), "figures": ("METRICS", "push")}


class Telemetry:
    def examine(self, circumstances: Circumstances) -> Iterator[Finding]:
        config = conf.current().telemetry
        yield from _traces(config)
        yield from _figures(config)


def _traces(config: conf.Telemetry) -> Iterator[Finding]:
    if not config.tracing_enabled:
        yield unused("traces", "none leave", "Set AUTH_TRACING_ENABLED=true and OTEL_EXPORTER_OTLP_ENDPOINT.")
    elif not config.traces:
        said = f"none leave, because no exporter is called {config.tracing_exporter}"
        yield failure("traces", said, "Set AUTH_TRACING_EXPORTER=opentelemetry.")
    else:
        yield from _sent("traces", config)


def _figures(config: conf.Telemetry) -> Iterator[Finding]:
    if not config.metrics_enabled:
        yield unused("figures", "none are kept", "Set AUTH_METRICS_ENABLED=true and AUTH_METRICS_EXPORTER.")
    elif config.metrics == "prometheus":
        yield _unloadable("figures", "authsvc.observability.telemetry.prometheus") or _listener(config)
    elif config.metrics:
        yield from _sent("figures", config)
    else:
        said = f"none are kept, because no exporter is called {config.metrics_exporter}"
        yield failure("figures", said, "Set AUTH_METRICS_EXPORTER=opentelemetry, or =prometheus.")


def _unloadable(subject: str, module: str) -> Finding | None:
    try:
        import_module(module)
    except Exception as error:  # noqa: BLE001  (whatever libraries raise that do not fit each other)
        said = f"the libraries cannot be loaded: {error}"
        return failure(subject, said, "pip install -r requirements.server.lock")
    return None


def _sent(subject: str, config: conf.Telemetry) -> Iterator[Finding]:
    """About what goes to a collector."""
    signal, part = _SIGNALS[subject]
    if fault := _unloadable(subject, f"authsvc.observability.telemetry.{part}"):
        yield fault
        return
    variables = _Variables(config, signal)
    if variables.protocol not in exporters.PROTOCOLS:
        remedy = f"Set OTEL_EXPORTER_OTLP_PROTOCOL to {' or '.join(exporters.PROTOCOLS)}."
        yield failure(subject, f"no protocol is called {variables.protocol}", remedy)
        return
    module = exporters.module(config, signal)
    yield _unloadable(subject, module) or _collector(subject, variables)


@dataclass(frozen=True, slots=True)
class _Variables:
    """The variables of the standard for one kind of what is sent, as the exporters read them."""

    config: conf.Telemetry
    signal: str

    def value(self, name: str) -> str:
        for each in (f"OTEL_EXPORTER_OTLP_{self.signal}_{name}", f"OTEL_EXPORTER_OTLP_{name}"):
            if found := self.config.variables.get(each):
                return found.reveal()
        return ""

    @property
    def protocol(self) -> str:
        return exporters.protocol(self.config, self.signal)

    def place(self) -> tuple[str, int, bool]:
        """Host, port and whether by TLS. Raises ValueError, whose text may quote a password."""
        if self.protocol == "grpc":
            return self._grpc_place()
        parts = urlsplit(self.value("ENDPOINT") or "http://localhost:4318")
        ports = {"http": 80, "https": 443}
        if parts.scheme not in ports or not parts.hostname:
            raise ValueError("no address of the web")
        return parts.hostname, parts.port or ports[parts.scheme], parts.scheme == "https"

    def _grpc_place(self) -> tuple[str, int, bool]:
        endpoint = self.value("ENDPOINT") or "http://localhost:4317"
        scheme, parts = urlsplit(endpoint).scheme, urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        if not parts.hostname:
            raise ValueError("no host")
        insecure = self.value("INSECURE")
        is_plain = insecure.lower() == "true" if insecure else scheme == "http"
        return parts.hostname, parts.port or 443, scheme == "https" or not is_plain


def _collector(subject: str, variables: _Variables) -> Finding:
    remedy = "Check OTEL_EXPORTER_OTLP_ENDPOINT"
    try:
        host, port, is_encrypted = variables.place()
    except ValueError:
        # gRPC knows other kinds of addresses, as of local sockets.
        judge = warning if variables.protocol == "grpc" else failure
        return judge(subject, "the address of the collector cannot be read", f"{remedy}.")
    place = f"{host}:{port}"
    url = f"{'https' if is_encrypted else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    if _goes_by_proxy(variables, url):
        return unused(subject, f"{place} is reached through a proxy of the environment, and was not looked at")
    try:
        with closing(socket.create_connection((host, port), _SECONDS)) as connection:
            if is_encrypted:
                _context(variables, url).wrap_socket(connection, server_hostname=host).close()
    except (OSError, ValueError) as error:
        if is_encrypted:
            remedy += ", …_CERTIFICATE, …_CLIENT_CERTIFICATE, …_CLIENT_KEY"
        remedy += ", that the collector runs, and that this host may go there."
        return failure(subject, f"{place}: {type(error).__name__}: {error}", remedy)
    return ok(subject, f"{place} takes connections{', encrypted' if is_encrypted else ''}")


def _goes_by_proxy(variables: _Variables, url: str) -> bool:
    if variables.protocol != "grpc":
        return bool(http.proxy(url))
    environment = conf.process_environment()
    # Its own rules for exceptions are too many to be repeated here.
    return any(environment.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy"))


def _context(variables: _Variables, url: str) -> ssl.SSLContext:
    """Raises OSError."""
    is_grpc = variables.protocol == "grpc"
    own = variables.value("CERTIFICATE")
    others = conf.process_environment().get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH") or http.AUTHORITIES
    named = own or (others if is_grpc else http.authorities(url))
    is_folder = Path(named).is_dir()
    context = ssl.create_default_context(cafile=None if is_folder else named, capath=named if is_folder else None)
    certificate = variables.value("CLIENT_CERTIFICATE")
    # For gRPC it counts beside an authority of its own alone.
    if certificate and (own or not is_grpc):
        # With a password that nobody has, where the library would ask at the terminal.
        context.load_cert_chain(certificate, variables.value("CLIENT_KEY") or None, password="")
    return context


def _listener(config: conf.Telemetry) -> Finding:
    address = (config.prometheus_host, config.prometheus_port)
    place = f"{config.prometheus_host}:{config.prometheus_port}"
    try:
        with socket.socket(socket.AF_INET6 if ":" in config.prometheus_host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _has_figures(address):
            return ok("figures", f"Prometheus gets them at {place}")
        remedy = "Set OTEL_EXPORTER_PROMETHEUS_HOST and OTEL_EXPORTER_PROMETHEUS_PORT to an address that is free."
        return failure("figures", f"{place}: {error.strerror}", remedy)
    return ok("figures", f"Prometheus will get them at {place}, which is free")


def _has_figures(address: tuple[str, int]) -> bool:
    """Whether whoever listens there is this service."""
    try:
        with socket.create_connection(address, _SECONDS) as connection, connection.makefile("rb") as answer:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"\nauth_running " in answer.read(_MOST)
    except OSError:
        return False
