"""`serve`: checks, migrations, then the HTTP server, until a signal ends it."""

from __future__ import annotations

import logging
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connections

import authsvc
from authsvc import conf
from authsvc.conf import deprecations, schema
from authsvc.db import embedded
from authsvc.security import encrypted_columns
from authsvc.server import granian_server, gunicorn_server, processes, serving

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Apply migrations and serve the API; the way to run in production."

    def get_version(self) -> str:
        return authsvc.__version__

    def handle(self, *_args: Any, **_options: Any) -> None:
        config = conf.current()
        for number in processes.STOPPING:
            signal.signal(number, _leave)
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except (DatabaseError, embedded.EmbeddedDatabaseFailed) as error:
            _fail(f"error opening database: {error}")
        encrypted_columns.warn_about_unknown_keys()
        # Serving processes open their own.
        connections.close_all()
        announce(config)
        try:
            serving.check_address(config)
        except OSError as error:
            _fail(f"http server listen failed: {error}")
        if config.api.server is schema.Server.GUNICORN:
            gunicorn_server.run(settings.BASE_DIR / "gunicorn.conf.py")
        else:
            processes.preload()
            wsgi = import_module("authsvc.wsgi")
            granian_server.run(config, wsgi.application)


def announce(config: schema.AuthConfig) -> None:
    """What an operator should know before the first request."""
    deprecations.announce(config.notices)
    if not (config.smtp.host or config.mailer.backend or config.mailer.dev_inbox_enabled):
        logger.info("Noop mail client being used for %s", config.site.url)
    logger.info("API started on: %s:%d", config.api.host, config.api.port, extra={"version": authsvc.__version__})


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Before the server listens there is nothing to finish; leaving this way runs the exit functions."""
    logger.info("received graceful shutdown signal")
    sys.exit(0)


def _fail(message: str) -> None:
    logger.critical(message)
    sys.exit(1)
