"""The base kit as a Django app."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from django.apps import AppConfig

from authsvc.core import db


class CoreConfig(AppConfig):
    name = "authsvc.core"
    label = "core"

    def __init__(self, app_name: str, app_module: ModuleType | None) -> None:
        super().__init__(app_name, app_module)
        # App configurations are made before any model is loaded, the last moment at which a table can be renamed.
        db.prefix_foreign_tables()

    def ready(self) -> None:
        for name in ("checks", "deploy_checks"):
            import_module(f"authsvc.core.{name}")  # registers itself
