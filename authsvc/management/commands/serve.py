"""`serve`: checks, migrations, then granian until a signal ends it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand

import authsvc
from authsvc import conf
from authsvc.server import granian_server, processes, startup


class Command(BaseCommand):
    help = "Apply migrations and serve the API; the way to run in production."
    requires_system_checks = []  # `startup.prepare` runs them

    def get_version(self) -> str:
        return authsvc.__version__

    def handle(self, *_args: Any, **_options: Any) -> None:
        config = conf.current()
        startup.prepare(config)
        processes.preload()
        wsgi = import_module("authsvc.wsgi")
        granian_server.run(config, wsgi.handler, wsgi.slots)
