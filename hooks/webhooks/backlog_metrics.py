"""Metrics of the deliveries that are pending in the whole installation, read at every export."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout

from django.db import Error
from prometheus_client.core import GaugeMetricFamily, Metric

from authsvc.jobs import queue_metrics
from hooks.webhooks import queries

_SQL = f"""
    SELECT count(*), EXTRACT(epoch FROM clock_timestamp() - min(created_at))
    FROM {queries.DELIVERIES} WHERE status = 'pending'"""  # noqa: S608  (own name)


class BacklogCollector:
    """A collector of prometheus_client. Leaves the metrics out while the database does not answer."""

    def collect(self) -> Iterator[Metric]:
        try:
            count, age = queue_metrics.read_row(_SQL, ())
        except (Error, FutureTimeout):
            return
        yield GaugeMetricFamily("auth_webhook_pending", "Deliveries of webhooks that are pending.", value=count)
        yield GaugeMetricFamily(
            "auth_webhook_oldest_pending_seconds",
            "Age of the oldest pending delivery of webhooks.",
            value=max(0.0, float(age or 0)),
        )
