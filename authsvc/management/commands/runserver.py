"""`runserver`: Django's development server on the configured address, with migrations applied first."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.commands import runserver

from authsvc import conf
from authsvc.server import startup


class Command(runserver.Command):
    def handle(self, *args: Any, **options: Any) -> str | None:
        api = conf.current().api
        host = f"[{api.host}]" if ":" in api.host else api.host or "127.0.0.1"
        options["addrport"] = options["addrport"] or f"{host}:{api.port}"
        return super().handle(*args, **options)

    def inner_run(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        startup.log_configuration(conf.current())
        super().inner_run(*args, **options)
