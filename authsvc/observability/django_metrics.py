"""HTTP, migration and model metrics of django-prometheus, with the service's routes and a bounded number of series."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.db import DatabaseError, connections
from django.db.models import Model
from django.http import HttpRequest

from authsvc.observability import metrics  # noqa: F401  (must precede every import of prometheus_client)
from authsvc.observability.routes import route_template

from django_prometheus.middleware import Metrics, PrometheusAfterMiddleware  # isort: skip
from django_prometheus.migrations import ExportMigrations  # isort: skip
from django_prometheus.models import ExportModelOperationsMixin  # isort: skip

logger = logging.getLogger(__name__)


class _OmittedMetric:
    def labels(self, **_labels: str) -> _OmittedMetric:
        return self

    def inc(self) -> None:
        """Counts nothing."""


class _HttpMetrics(Metrics):  # type: ignore[misc]  # the library has no types
    """Without the metrics that are sums of others: they would take a tenth of the time of a short request."""

    _OMITTED = frozenset(
        {
            "django_http_ajax_requests_total",
            "django_http_requests_total_by_method",
            "django_http_requests_total_by_transport",
            "django_http_requests_total_by_view_transport_method",
            "django_http_responses_total_by_charset",
            "django_http_responses_total_by_status",
        }
    )

    def register_metric(self, metric_cls: Any, name: str, *args: Any, **options: Any) -> Any:
        return (
            _OmittedMetric() if name in self._OMITTED else super().register_metric(metric_cls, name, *args, **options)
        )


class RouteMetricsMiddleware(PrometheusAfterMiddleware):  # type: ignore[misc]  # the library has no types
    """Labels requests with their route template instead of the name of the view.

    The library would also take any method that a client invents as a label of the latency histogram.
    """

    metrics_cls = _HttpMetrics

    def label_metric(self, metric: Any, request: HttpRequest, response: Any = None, **labels: str) -> Any:
        if not labels or isinstance(metric, _OmittedMetric):
            return metric
        if "view" in labels:
            labels["view"] = route_template(request)
        if "method" in labels:
            labels["method"] = self._method(request)
        return super().label_metric(metric, request, response, **labels)


def count_operations(models: Iterable[type[Model]]) -> None:
    """Count inserts, updates and deletes that go through instances of `models`.

    The mixin is put in place here, not in the class statement, so that nothing is loaded while metrics are off.
    """
    for model in models:
        model.__bases__ = (ExportModelOperationsMixin(model._meta.label), *model.__bases__)


def count_migrations() -> None:
    """Set the metrics of applied and unapplied migrations, over a connection of this thread."""
    try:
        ExportMigrations()
    except DatabaseError as error:
        logger.warning("unable to count migrations for metrics", extra={"error": str(error)})
    finally:
        connections.close_all()
