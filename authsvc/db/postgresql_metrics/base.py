"""The service's PostgreSQL backend with the connection and statement metrics of django-prometheus."""

from __future__ import annotations

from authsvc.db.postgresql import base
from authsvc.observability import metrics  # noqa: F401  (must precede every import of prometheus_client)

from django_prometheus.db import connection_errors_total, errors_total  # isort: skip
from django_prometheus.db.backends.postgresql import base as measured  # isort: skip

# Exported at 0 before the first error, so that `increase()` sees that error.
connection_errors_total.labels("default", "postgresql")
errors_total.labels("default", "postgresql", "OperationalError")


class DatabaseWrapper(base.DatabaseWrapper, measured.DatabaseWrapper):  # type: ignore[misc]  # the library has no types
    """Counts connections and statements, times statements, and counts errors by class."""
