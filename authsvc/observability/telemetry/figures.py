"""The figures of this process, kept by prometheus_client: in memory, or in files that another process adds up."""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import prometheus_client
from prometheus_client import values
from prometheus_client.metrics import MetricWrapperBase

from authsvc.observability import metrics

_UNITS = {"s": "_seconds", "By": "_bytes"}
_LARGEST = {"counter": 512 * 1024, "histogram": 4 * 1024 * 1024, "gauge_livesum": 64 * 1024}
"""Bytes for the series there can be, by kind of file."""
_MOST_NOTED = 1000

logger = logging.getLogger(__name__)

_Key = tuple[metrics.Instrument, tuple[str, ...]]


class Figures:
    """A `metering.Store`. Every series without labels is there from the start, and those an instrument names.

    To write into a series is dear, so what happens is noted down, and written once for many.
    """

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._families: dict[metrics.Instrument, MetricWrapperBase] = {}
        self._series: dict[_Key, _Series] = {}
        self._noted: deque[metrics.Event] = deque()
        self._writing = threading.Lock()
        for instrument in metrics.instruments():
            self._families[instrument] = _family(instrument, self.registry)
            for labels in instrument.known if instrument.labels else [()]:
                self._child((instrument, labels))

    def record(self, *events: metrics.Event) -> None:
        self._noted.extend(events)
        if len(self._noted) > _MOST_NOTED:
            self.write()

    def write(self) -> None:
        """Bring the series up to date. Raises nothing: what cannot be counted is no reason not to serve."""
        sums: defaultdict[_Key, float] = defaultdict(float)
        counts: Counter[tuple[_Key, int]] = Counter()
        try:
            with self._writing:
                for _ in range(len(self._noted)):
                    instrument, labels, value = self._noted.popleft()
                    key = (instrument, labels)
                    sums[key] += value
                    if isinstance(instrument, metrics.Histogram):
                        counts[key, bisect_left(instrument.buckets, value)] += 1
                for key, total in sums.items():
                    (self._series.get(key) or self._child(key)).total.inc(total)
                for (key, bucket), number in counts.items():
                    self._series[key].buckets[bucket].inc(number)
        except Exception:
            logger.exception("figures not written")

    def families(self) -> Iterator[tuple[metrics.Instrument, MetricWrapperBase]]:
        yield from self._families.items()

    def _child(self, key: _Key) -> _Series:
        instrument, labels = key
        family = self._families[instrument]
        child: Any = family.labels(*labels) if labels else family
        if isinstance(instrument, metrics.Histogram):
            # The library offers no way to write more than one observation at a time.
            self._series[key] = _Series(child._sum, child._buckets)
        else:
            self._series[key] = _Series(child)
        return self._series[key]


class _Series(NamedTuple):
    total: Any
    """What grows by each value."""
    buckets: Sequence[Any] = ()
    """Of a histogram: one for each bound, and one for what is beyond."""


def prometheus_name(name: str, unit: str) -> str:
    """`http.server.request.duration` in seconds → `http_server_request_duration_seconds`."""
    return name.replace(".", "_").removesuffix("_total") + _UNITS.get(unit, "")


def keep_in_files(shared: Path) -> None:
    """Let what is recorded from now on go to files of this process, whose room is taken at once. Raises OSError.

    They are memory that is mapped to a file: were the disk full when a page of it is first written to, the process
    would be killed.
    """
    # The library would ask the kernel for the process's number with every figure.
    own = os.getpid()
    values.ValueClass = values.MultiProcessValue(lambda: own)  # type: ignore[no-untyped-call]  # the library's
    for kind, size in _LARGEST.items():
        descriptor = os.open(shared / f"{kind}_{os.getpid()}.db", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)


def _family(instrument: metrics.Instrument, registry: prometheus_client.CollectorRegistry) -> MetricWrapperBase:
    name = prometheus_name(instrument.name, instrument.unit)
    labels = [label.replace(".", "_") for label in instrument.labels]
    if isinstance(instrument, metrics.Histogram):
        return prometheus_client.Histogram(name, instrument.help, labels, registry=registry, buckets=instrument.buckets)
    if isinstance(instrument, metrics.Counter):
        return prometheus_client.Counter(name, instrument.help, labels, registry=registry)
    return prometheus_client.Gauge(name, instrument.help, labels, registry=registry, multiprocess_mode="livesum")
