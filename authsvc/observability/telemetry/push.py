"""Figures sent to a collector by OTLP, each process its own, and those of the installation by one of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric
from prometheus_client.samples import Sample

from authsvc import __version__, conf
from authsvc.observability import metrics as metering
from authsvc.observability.telemetry import about, exporters, figures, runtime
from authsvc.server import processes

_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_INTERVAL = 60_000
_SUM, _COUNT, _BUCKET = "_sum", "_count", "_bucket"
_SCOPE = InstrumentationScope("authsvc", __version__)
_CUMULATIVE = export.AggregationTemporality.CUMULATIVE

logger = logging.getLogger(__name__)


def start(config: conf.Telemetry) -> Callable[[], None]:
    """Keep figures and send them, every minute unless OTEL_METRIC_EXPORT_INTERVAL says otherwise (milliseconds).

    Raises ValueError for an unknown protocol.
    """
    exporter = exporters.make(config, "METRICS")
    kept = figures.Figures()
    metering.keep_in(kept)
    sender = _Sender(kept, exporter, Resource.create(about.resource(config)))
    sending = threading.Thread(target=sender.run, args=(_interval(config),), name="metrics", daemon=True)
    sending.start()

    def stop() -> None:
        sender.ended.set()
        sending.join()
        exporter.shutdown()

    return stop


def _interval(config: conf.Telemetry) -> float:
    """Seconds."""
    given = config.variables.get(_INTERVAL)
    text = given.reveal() if given else ""
    return (int(text) if text.isascii() and text.isdigit() and int(text) else _DEFAULT_INTERVAL) / 1000


class _Sender:
    def __init__(self, kept: figures.Figures, exporter: Any, resource: Resource) -> None:
        self.ended = threading.Event()
        self._figures = kept
        self._exporter = exporter
        self._resource = resource
        self._runtime = runtime.Runtime()
        self._began = time.time_ns()

    def run(self, interval: float) -> None:
        """Send again and again, and once more at the end. What is not taken is in the next message all the same."""
        is_last = False
        while not is_last:
            is_last = self.ended.wait(interval)
            try:
                self._exporter.export(self.data())
            except Exception:
                logger.exception("figures not sent")

    def data(self) -> export.MetricsData:
        self._runtime.record()
        self._figures.write()
        metrics = [self._metric(instrument, family.collect()) for instrument, family in self._figures.families()]
        if processes.is_speaker():
            metrics += [self._gauge(readings) for gauge in metering.gauges for readings in _by_name(gauge())]
        scope = export.ScopeMetrics(scope=_SCOPE, metrics=[each for each in metrics if each], schema_url="")
        return export.MetricsData([export.ResourceMetrics(self._resource, [scope], schema_url="")])

    def _metric(self, instrument: metering.Instrument, collected: Iterable[Metric]) -> export.Metric | None:
        samples = [sample for metric in collected for sample in metric.samples if not sample.name.endswith("_created")]
        if not samples:
            return None
        data: Any
        if isinstance(instrument, metering.Histogram):
            points = list(self._histogram_points(instrument, samples))
            data = export.Histogram(data_points=points, aggregation_temporality=_CUMULATIVE)
        else:
            numbers = [self._point(_attributes(instrument, sample), sample.value) for sample in samples]
            is_counter = isinstance(instrument, metering.Counter)
            data = export.Sum(data_points=numbers, aggregation_temporality=_CUMULATIVE, is_monotonic=is_counter)
        return export.Metric(name=instrument.name, description=instrument.help, unit=instrument.unit or "1", data=data)

    def _gauge(self, readings: list[metering.Reading]) -> export.Metric:
        first = readings[0]
        points = [self._point(dict(reading.labels), reading.value) for reading in readings]
        data = export.Gauge(data_points=points)
        return export.Metric(name=first.name, description=first.help, unit=first.unit or "1", data=data)

    def _point(self, attributes: Mapping[str, str | int], value: float) -> export.NumberDataPoint:
        return export.NumberDataPoint(
            attributes=attributes, start_time_unix_nano=self._began, time_unix_nano=time.time_ns(), value=value
        )

    def _histogram_points(
        self, instrument: metering.Histogram, samples: list[Sample]
    ) -> Iterator[export.HistogramDataPoint]:
        series: dict[tuple[str, ...], dict[str, Any]] = {}
        for sample in samples:
            key = tuple(sample.labels.get(label.replace(".", "_"), "") for label in instrument.labels)
            found = series.setdefault(key, {_BUCKET: [], "of": sample})
            if sample.name.endswith(_BUCKET):
                found[_BUCKET].append(sample.value)
            else:
                found[_SUM if sample.name.endswith(_SUM) else _COUNT] = sample.value
        for found in series.values():
            up_to = found[_BUCKET]
            yield export.HistogramDataPoint(
                attributes=_attributes(instrument, found["of"]),
                start_time_unix_nano=self._began,
                time_unix_nano=time.time_ns(),
                count=int(up_to[-1]),
                sum=found[_SUM],
                bucket_counts=[int(count - below) for count, below in zip(up_to, [0, *up_to], strict=False)],
                explicit_bounds=list(instrument.buckets),
                min=None,  # type: ignore[arg-type]  # nobody keeps them, and the protocol does not insist
                max=None,  # type: ignore[arg-type]  # the same
            )


def _attributes(instrument: metering.Instrument, sample: Sample) -> dict[str, str | int]:
    given = {label: sample.labels[label.replace(".", "_")] for label in instrument.labels}
    return {label: int(value) if label in metering.NUMBERS else value for label, value in given.items()}


def _by_name(readings: Iterable[metering.Reading]) -> Iterable[list[metering.Reading]]:
    found: dict[str, list[metering.Reading]] = {}
    for reading in readings:
        found.setdefault(reading.name, []).append(reading)
    return found.values()
