"""The OTLP exporters, and the resource attributes of exported metrics and spans."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
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

_EXPORTERS_LOGGER = "opentelemetry.exporter"
_BATCHES_LOGGER = "opentelemetry.sdk._shared_internal"
WARNING_INTERVAL = 3600.0
"""Seconds between two warnings about failed exports."""

logger = logging.getLogger(__name__)


class ExportWarnings(logging.Handler):
    """Replaces the log records of the exporters by one warning an hour.

    The exporters log each failed batch in each process. Here the leader alone warns, for all processes.
    """

    def __init__(self, is_leader: Callable[[], bool]) -> None:
        super().__init__(logging.WARNING)
        self._is_leader = is_leader
        self._next_at = float("-inf")
        self._last_attempt = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text} {record.exc_info[1]}"
        if record.levelno < logging.ERROR and record.name.startswith(_EXPORTERS_LOGGER):
            # The exporter tries again, or stops. This record has the reason, which that of the final failure lacks.
            self._last_attempt = text
            return
        now = time.monotonic()
        if now < self._next_at or not self._is_leader():
            return
        self._next_at = now + WARNING_INTERVAL
        logger.warning(
            "metrics or traces are not exported: check the collector and OTEL_EXPORTER_OTLP_ENDPOINT;"
            " this warning appears once an hour",
            extra={"component": "otel", "error": text, "last_attempt": self._last_attempt},
        )


def limit_warnings(*, is_leader: Callable[[], bool]) -> None:
    """Log failed exports of this process by `ExportWarnings` from now on."""
    handler = ExportWarnings(is_leader)
    for name in (_EXPORTERS_LOGGER, _BATCHES_LOGGER):
        library = logging.getLogger(name)
        library.handlers = [handler]
        library.propagate = False
        library.setLevel(logging.WARNING)


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
