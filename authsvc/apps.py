"""The Django app of the project package: its models, migrations, checks and console pages."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from django.apps import AppConfig, apps

from authsvc import conf
from authsvc.db import sql
from authsvc.observability import metrics


class AuthsvcConfig(AppConfig):
    name = "authsvc"
    label = "core"  # the label of the existing migrations and content types

    def __init__(self, app_name: str, app_module: ModuleType | None) -> None:
        super().__init__(app_name, app_module)
        # App configurations are made before any model is loaded, the last moment at which a table can be renamed.
        sql.prefix_foreign_tables()

    def ready(self) -> None:
        # Each module registers its checks or console pages when it is imported.
        for name in ("diagnostics.system_checks", "diagnostics.deploy_checks", "audit.admin"):
            import_module(f"authsvc.{name}")
        if conf.current().telemetry.metrics:
            import_module("authsvc.observability.django_metrics").count_operations(apps.get_models())
            queue_metrics = import_module("authsvc.jobs.queue_metrics")
            metrics.installation_collectors.append(queue_metrics.QueueCollector())
