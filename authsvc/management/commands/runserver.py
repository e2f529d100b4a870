"""`runserver`: Django's development server on the configured address, with migrations applied first."""

from __future__ import annotations

import atexit
import signal
import sys
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError
from django.core.management.commands import runserver
from django.utils import autoreload

from authsvc import conf
from authsvc.db import embedded
from authsvc.server import serving, startup


class Command(runserver.Command):
    addr: str
    port: str

    def handle(self, *args: Any, **options: Any) -> str | None:
        api = conf.current().api
        host = f"[{api.host}]" if ":" in api.host else api.host or "127.0.0.1"
        options["addrport"] = options["addrport"] or f"{host}:{api.port}"
        return super().handle(*args, **options)

    def run(self, **options: Any) -> None:
        # The reloader starts this program again, with this variable.
        is_reloaded = conf.process_environment().get(autoreload.DJANGO_AUTORELOAD_ENV) == "true"
        if not is_reloaded:
            if problem := serving.listen_problem(self.addr, int(self.port)):
                raise CommandError(problem)
            # SIGTERM then runs the functions of `atexit`, which stop an embedded database.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            if options["use_reloader"]:
                # The reloader kills the program that it has started; this process stops the database for it.
                atexit.register(_stop_embedded_database)
        super().run(**options)

    def inner_run(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        startup.log_configuration(conf.current())
        super().inner_run(*args, **options)


def _stop_embedded_database() -> None:
    folder = embedded.folder(conf.current().database.url.reveal())
    if folder is not None:
        embedded.stop(folder)
