"""Django app of the hooks."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class HooksConfig(AppConfig):
    name = "hooks"
    verbose_name = "Hooks and webhooks"

    def ready(self) -> None:
        from authsvc.messaging import contract
        from hooks.points.messages import MessageHooks

        import_module("hooks.checks")  # registers itself
        contract.message_hook = MessageHooks()
