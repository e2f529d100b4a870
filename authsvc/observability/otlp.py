"""The OTLP exporters, and the resource attributes of exported metrics and spans."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any
from uuid import uuid4

from authsvc import __version__, conf

EXPORTERS = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
}
"""Protocol → package of its exporters."""
_CLASSES = {"traces": ("trace_exporter", "OTLPSpanExporter"), "metrics": ("metric_exporter", "OTLPMetricExporter")}


def resource_attributes(config: conf.Telemetry) -> dict[str, str]:
    """Attributes of the service: those of the operator, and its version as `auth.version`."""
    attributes = {"service.name": "authsvc", **config.resource_attributes, "auth.version": __version__}
    if name := config.variables.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = name.reveal()
    return attributes


def process_attributes(config: conf.Telemetry) -> dict[str, str | int]:
    """The resource attributes of this process: those of the service, an instance ID and the process ID."""
    return {"service.instance.id": str(uuid4()), **resource_attributes(config), "process.pid": os.getpid()}


def protocol(config: conf.Telemetry, signal: str) -> str:
    """Protocol of a signal, `traces` or `metrics`, as the standard variables say; may be unsupported."""
    specific = config.variables.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL")
    return (specific.reveal() if specific else "") or config.otlp_protocol


def exporter_class(config: conf.Telemetry, signal: str) -> Any:
    """The exporter of a signal; its instances read the other standard variables.

    Raises ValueError for an unsupported protocol and ImportError where the libraries are missing.
    """
    selected = protocol(config, signal)
    if selected not in EXPORTERS:
        raise ValueError(f'unsupported OpenTelemetry exporter protocol "{selected}"')
    module, name = _CLASSES[signal]
    return getattr(import_module(f"{EXPORTERS[selected]}.{module}"), name)
