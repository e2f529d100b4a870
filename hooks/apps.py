"""Django app of the hooks."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class HooksConfig(AppConfig):
    name = "hooks"
    verbose_name = "Hooks and webhooks"

    def ready(self) -> None:
        import_module("hooks.checks")  # registers itself
