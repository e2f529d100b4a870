"""Tokens as a Django app."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "tokens"

    def ready(self) -> None:
        import_module("tokens.checks")  # registers itself
