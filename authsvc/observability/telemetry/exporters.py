"""Which library sends spans or figures to a collector."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from authsvc import conf

PROTOCOLS = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
}
_CLASSES = {"TRACES": ("trace_exporter", "OTLPSpanExporter"), "METRICS": ("metric_exporter", "OTLPMetricExporter")}


def protocol(config: conf.Telemetry, signal: str) -> str:
    """What is spoken for a signal, `TRACES` or `METRICS`, as the variables of the standard say; it may be unknown."""
    own = config.variables.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL")
    return (own.reveal() if own else "") or config.otlp_protocol


def module(config: conf.Telemetry, signal: str) -> str:
    """Where the exporter is. Raises ValueError for an unknown protocol."""
    spoken = protocol(config, signal)
    if spoken not in PROTOCOLS:
        raise ValueError(f'unsupported OpenTelemetry exporter protocol "{spoken}"')
    return f"{PROTOCOLS[spoken]}.{_CLASSES[signal][0]}"


def make(config: conf.Telemetry, signal: str) -> Any:
    """An exporter, which reads the other variables itself. Raises ValueError for an unknown protocol."""
    return getattr(import_module(module(config, signal)), _CLASSES[signal][1])()
