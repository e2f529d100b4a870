"""Settings of logging, the audit trail, metrics and traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from authsvc.conf.declaration import setting, variables_of_standard
from authsvc.conf.types import Secret
from authsvc.conf.value_types import BOOLEAN, DURATION, LOG_LEVEL, ONLY_TRUE, PORT, RESOURCE_ATTRIBUTES, TEXT, choice

_MIN_RETENTION = timedelta(days=30)


def _check_retention(retention: timedelta) -> str:
    # The charts of the console and the known networks of users come from the entries of this time.
    return "must be 0 or at least 720h" if retention and retention < _MIN_RETENTION else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    level: str = setting(
        "AUTH_LOG_LEVEL",
        "LOG_LEVEL",
        type=LOG_LEVEL,
        default="info",
        restart=True,
        help="Lowest level that is logged.",
    )
    file: str = setting(
        "AUTH_LOG_FILE",
        type=TEXT,
        default="",
        restart=True,
        help="Log file; empty = standard error.",
    )
    sql: str = setting(
        "AUTH_LOG_SQL",
        type=choice("none", "statement", "all"),
        default="none",
        restart=True,
        help="Log SQL: `statement` the text, `all` also the arguments, where texts are replaced by their length.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    disable_postgres: bool = setting(
        "AUTH_AUDIT_LOG_DISABLE_POSTGRES",
        type=BOOLEAN,
        default=False,
        help="Write the audit trail only to the log.",
    )
    refreshes_stored: bool = setting(
        "AUTH_AUDIT_LOG_REFRESHES_STORED",
        type=BOOLEAN,
        default=True,
        help="Store an entry for each refresh of a session; false writes these only to the log. They are most of the"
        " audit trail.",
    )
    retention: timedelta = setting(
        "AUTH_AUDIT_LOG_RETENTION",
        type=DURATION,
        default=timedelta(),
        check=_check_retention,
        help="Age at which the partition of a month is detached from the audit trail, at least 720h; 0 = never.",
        example="8760h",
    )
    drop_expired: bool = setting(
        "AUTH_AUDIT_LOG_DROP_EXPIRED",
        type=BOOLEAN,
        default=False,
        help="Delete a detached partition; false keeps its table for an archive.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    tracing_enabled: bool = setting(
        "AUTH_TRACING_ENABLED", type=BOOLEAN, default=False, restart=True, help="Export traces."
    )
    tracing_exporter: str = setting(
        "AUTH_TRACING_EXPORTER",
        type=choice("opentelemetry", allows_empty=True),
        default="opentelemetry",
        falsy_is_default=True,
        restart=True,
        help="Exporter of traces.",
    )
    metrics_enabled: bool = setting(
        "AUTH_METRICS_ENABLED", type=BOOLEAN, default=False, restart=True, help="Export metrics."
    )
    metrics_exporter: str = setting(
        "AUTH_METRICS_EXPORTER",
        type=choice("opentelemetry", "prometheus", allows_empty=True),
        default="opentelemetry",
        falsy_is_default=True,
        restart=True,
        help="Exporter of metrics: `prometheus` is a listener for scrapers, `opentelemetry` pushes to a collector.",
    )
    prometheus_host: str = setting(
        "AUTH_OTEL_EXPORTER_PROMETHEUS_HOST",
        "OTEL_EXPORTER_PROMETHEUS_HOST",
        type=TEXT,
        default="0.0.0.0",  # noqa: S104  (documented: a scraper runs on another host)
        restart=True,
        help="Address of the listener for Prometheus.",
    )
    prometheus_port: int = setting(
        "AUTH_OTEL_EXPORTER_PROMETHEUS_PORT",
        "OTEL_EXPORTER_PROMETHEUS_PORT",
        type=PORT,
        default=9100,
        restart=True,
        help="Port of the listener for Prometheus.",
    )
    debug: bool = setting(
        "AUTH_DEBUG",
        "DEBUG",
        # Other programs read this bare name too, with other values, which must not stop the start.
        type=ONLY_TRUE,
        default=False,
        restart=True,
        help="Log the diagnostics of the exporters.",
    )
    resource_attributes: Mapping[str, str] = setting(
        "AUTH_OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_RESOURCE_ATTRIBUTES",
        type=RESOURCE_ATTRIBUTES,
        default={},
        lenient=True,
        restart=True,
        help="Resource attributes of every trace and metric.",
        example="deployment.environment=production",
    )
    otlp_protocol: str = setting(
        "AUTH_OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        type=TEXT,
        default="http/protobuf",
        falsy_is_default=True,
        restart=True,
        help="Protocol of the collector: `http/protobuf` or `grpc`.",
    )
    variables: Mapping[str, Secret] = variables_of_standard(
        "AUTH_OTEL_",
        "OTEL_",
        help="Every variable of the OpenTelemetry standard; the name with `AUTH_` counts first.",
        defaults={
            # Attributes by their present names and by the older ones, such as `http.method`.
            "OTEL_SEMCONV_STABILITY_OPT_IN": "http/dup",
            # Without baggage, which would pass values from clients to other servers.
            "OTEL_PROPAGATORS": "tracecontext",
        },
    )

    @property
    def traces(self) -> bool:
        """Traces are exported."""
        return self.tracing_enabled and self.tracing_exporter == "opentelemetry"

    @property
    def metrics(self) -> str:
        """The exporter of metrics, `prometheus` or `opentelemetry`; empty when metrics are not exported."""
        return self.metrics_exporter if self.metrics_enabled else ""
