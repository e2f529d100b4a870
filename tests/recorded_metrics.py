"""Records metrics in tests; the settings of the test run disable them."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType
from unittest import mock

import pytest
from prometheus_client import REGISTRY

from authsvc.observability import metrics


class RecordedMetrics:
    """Metrics recorded since the creation of this object."""

    def __init__(self) -> None:
        self._before = _samples()

    def changes(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Values of these labels → growth, of the series of a sample name that have changed."""
        now = _samples()
        growth = {key: now[key] - self._before.get(key, 0) for key in now if key[0] == name}
        return {tuple(dict(key[1])[label] for label in labels): value for key, value in growth.items() if value}

    def total(self, name: str, **labels: str) -> float:
        """Growth of the series of a sample name with these labels."""
        changes = self.changes(name, *labels)
        return changes.get(tuple(labels.values()), 0)


def enable(monkeypatch: pytest.MonkeyPatch) -> RecordedMetrics:
    """Replace the disabled metrics by real ones during a test."""
    for name, metric in vars(_enabled_metrics()).items():
        if name.isupper():
            monkeypatch.setattr(metrics, name, metric)
    return RecordedMetrics()


@cache
def _enabled_metrics() -> ModuleType:
    """`authsvc.observability.metrics` loaded with metrics enabled; once, because it registers its metrics."""
    assert metrics.__file__ is not None
    spec = importlib.util.spec_from_file_location("enabled_metrics", metrics.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch("authsvc.conf.Telemetry.metrics", "opentelemetry"):
        spec.loader.exec_module(module)
    return module


def _samples() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
    }
