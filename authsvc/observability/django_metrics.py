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

from django_prometheus.middleware import PrometheusAfterMiddleware  # isort: skip
from django_prometheus.migrations import ExportMigrations  # isort: skip
from django_prometheus.models import ExportModelOperationsMixin  # isort: skip

logger = logging.getLogger(__name__)


class RouteMetricsMiddleware(PrometheusAfterMiddleware):  # type: ignore[misc]  # the library has no types
    """Labels requests with their route template instead of the name of the view.

    The library would also take any method that a client invents as a label of the latency histogram.
    """

    def label_metric(self, metric: Any, request: HttpRequest, response: Any = None, **labels: str) -> Any:
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
