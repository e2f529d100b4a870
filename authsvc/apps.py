"""The Django app of the project package: its models, migrations, checks and console pages."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from django.apps import AppConfig, apps

from authsvc import conf
from authsvc.db import sql


class AuthsvcConfig(AppConfig):
    name = "authsvc"
    label = "core"  # the label of the existing migrations and content types

    def __init__(self, app_name: str, app_module: ModuleType | None) -> None:
        super().__init__(app_name, app_module)
        # App configurations are created before any model is loaded, so table names can still change here.
        sql.prefix_foreign_tables()

    def ready(self) -> None:
        from authsvc import personal_data
        from authsvc.audit.erasure import AuditPersonalData
        from authsvc.diagnostics.database import DatabaseDiagnostic
        from authsvc.diagnostics.proxy import ProxyDiagnostic
        from authsvc.diagnostics.registry import diagnostics
        from authsvc.diagnostics.telemetry import TelemetryDiagnostic
        from authsvc.security.models import RateLimitPersonalData

        # These modules register checks and console pages when they are imported.
        for name in ("diagnostics.deploy_checks", "audit.admin"):
            import_module(f"authsvc.{name}")
        diagnostics.extend([DatabaseDiagnostic(), TelemetryDiagnostic(), ProxyDiagnostic()])
        personal_data.sources.extend([RateLimitPersonalData(), AuditPersonalData()])
        if conf.current().telemetry.metrics:
            # Not loaded otherwise, as are the libraries that they import.
            from authsvc.jobs.queue_metrics import QueueCollector
            from authsvc.observability import django_metrics, metrics

            django_metrics.count_operations(apps.get_models())
            metrics.installation_collectors.append(QueueCollector())
