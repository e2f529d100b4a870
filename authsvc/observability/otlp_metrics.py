"""Pushes the metrics of this process to a collector by OTLP."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from authsvc import __version__, conf
from authsvc.observability import metrics, otlp

_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_INTERVAL = 60_000
_SCOPE = InstrumentationScope("authsvc", __version__)
_CUMULATIVE = export.AggregationTemporality.CUMULATIVE

logger = logging.getLogger(__name__)


def start(config: conf.Telemetry, *, is_leader: Callable[[], bool]) -> Callable[[], None]:
    """Push every OTEL_METRIC_EXPORT_INTERVAL milliseconds (60,000); returns a function that pushes once more and stops.

    Raises ValueError for an unsupported protocol.
    """
    exporter = otlp.exporter_class(config, "metrics")()
    resource = Resource.create(otlp.process_attributes(config))
    stopping = threading.Event()
    interval = _interval(config)

    def push() -> None:
        is_last = False
        while not is_last:
            is_last = stopping.wait(interval)
            try:
                collectors = metrics.installation_collectors if is_leader() else []
                families = [
                    *REGISTRY.collect(),
                    *(family for collector in collectors for family in collector.collect()),
                ]
                exporter.export(convert(families, resource))
            except Exception:
                logger.exception("metrics not exported")
        exporter.shutdown()

    thread = threading.Thread(target=push, name="otlp-metrics", daemon=True)
    thread.start()

    def stop() -> None:
        stopping.set()
        thread.join()

    return stop


def convert(families: Iterable[Metric], resource: Resource) -> export.MetricsData:
    """Metrics of prometheus_client as those of OpenTelemetry: cumulative, with the same names and labels."""
    converted = [_convert(family) for family in families if family.samples]
    scope = export.ScopeMetrics(scope=_SCOPE, metrics=converted, schema_url="")
    return export.MetricsData([export.ResourceMetrics(resource, [scope], schema_url="")])


_started_at = time.time_ns()


def _convert(family: Metric) -> export.Metric:
    data: Any
    if family.type == "histogram":
        data = export.Histogram(data_points=list(_histogram_points(family)), aggregation_temporality=_CUMULATIVE)
    else:
        # `_created` repeats the start time of a counter.
        points = [_point(sample) for sample in family.samples if not sample.name.endswith("_created")]
        if family.type == "counter":
            data = export.Sum(data_points=points, aggregation_temporality=_CUMULATIVE, is_monotonic=True)
        else:
            data = export.Gauge(data_points=points)
    return export.Metric(name=family.name, description=family.documentation, unit=family.unit or "1", data=data)


def _point(sample: Sample) -> export.NumberDataPoint:
    return export.NumberDataPoint(
        attributes=sample.labels,
        start_time_unix_nano=_started_at,
        time_unix_nano=time.time_ns(),
        value=sample.value,
    )


def _histogram_points(family: Metric) -> Iterator[export.HistogramDataPoint]:
    series: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for sample in family.samples:
        labels = tuple(pair for pair in sample.labels.items() if pair[0] != "le")
        series.setdefault(labels, {})[sample.labels.get("le") or sample.name.rpartition("_")[2]] = sample.value
    for labels, values in series.items():
        total, count = values.pop("sum"), values.pop("count")
        values.pop("created", None)
        bounds = sorted(values, key=float)
        cumulative = [values[bound] for bound in bounds]
        yield export.HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=_started_at,
            time_unix_nano=time.time_ns(),
            count=int(count),
            sum=total,
            bucket_counts=[int(up_to - below) for up_to, below in zip(cumulative, [0, *cumulative], strict=False)],
            explicit_bounds=[float(bound) for bound in bounds[:-1]],
            min=None,  # type: ignore[arg-type]  # prometheus_client keeps neither, and both are optional
            max=None,  # type: ignore[arg-type]  # the same
        )


def _interval(config: conf.Telemetry) -> float:
    """The seconds between two exports."""
    variable = config.variables.get(_INTERVAL)
    text = variable.reveal() if variable else ""
    return (int(text) if text.isascii() and text.isdigit() and int(text) else _DEFAULT_INTERVAL) / 1000
