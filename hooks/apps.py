"""Django app of the hooks."""

from __future__ import annotations

from django.apps import AppConfig


class HooksConfig(AppConfig):
    name = "hooks"
    verbose_name = "Hooks and webhooks"
