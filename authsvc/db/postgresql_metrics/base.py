"""The service's PostgreSQL backend with the connection and statement metrics of django-prometheus."""

from __future__ import annotations

from authsvc.db.postgresql import base
from authsvc.observability import metrics  # noqa: F401  (must precede every import of prometheus_client)

from django_prometheus.db.backends.postgresql import base as measured  # isort: skip


class DatabaseWrapper(base.DatabaseWrapper, measured.DatabaseWrapper):  # type: ignore[misc]  # the library has no types
    """Counts connections and statements, times statements, and counts errors by class."""
