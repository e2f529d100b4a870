"""The steps before a server listens, shared by `manage.py serve` and gunicorn."""

from __future__ import annotations

import logging
import signal
import sys
from types import FrameType
from typing import Never

from django.core import checks
from django.core.management import call_command
from django.db import DatabaseError, connections

import authsvc
from authsvc import conf
from authsvc.db import embedded
from authsvc.security import encrypted_columns
from authsvc.server import processes, serving

logger = logging.getLogger(__name__)


def prepare(config: conf.AuthConfig) -> None:
    """Check the configuration and that the address is free, and migrate under the advisory lock.

    Ends the process with status 1 and one critical log line when one of these fails.
    """
    for number in processes.STOPPING:
        signal.signal(number, _exit)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    run_system_checks()
    _check_address(config)
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except (DatabaseError, embedded.EmbeddedDatabaseFailed) as error:
        _fail(f"error opening database: {error}")
    encrypted_columns.warn_about_unknown_keys()
    # Serving processes open their own.
    connections.close_all()
    # Another server may have taken the address meanwhile.
    _check_address(config)
    log_configuration(config)


def run_system_checks() -> None:
    """End the process with status 1 and one critical log line if a system check fails."""
    problems = [message for message in checks.run_checks() if message.is_serious() and not message.is_silenced()]
    if problems:
        _fail(f"system checks failed: {'; '.join(f'{problem.id}: {problem.msg}' for problem in problems)}")


def log_notices(config: conf.AuthConfig) -> None:
    """Log the notices about the settings."""
    conf.log_notices(config.notices)
    has_hook = config.hooks["send_email"].enabled
    if not (config.smtp.host or config.mailer.backend or config.mailer.dev_inbox_enabled or has_hook):
        logger.info("Noop mail client being used for %s", config.site.url)


def log_configuration(config: conf.AuthConfig) -> None:
    """Log the notices about the settings and the address, before the first request."""
    log_notices(config)
    logger.info("API started on: %s:%d", config.api.host, config.api.port, extra={"version": authsvc.__version__})


def _check_address(config: conf.AuthConfig) -> None:
    if problem := serving.listen_problem(config.api.host, config.api.port):
        _fail(f"http server listen failed: {problem}")


def _exit(_number: int, _frame: FrameType | None) -> None:
    """Before the server listens there is no request to finish. `sys.exit` runs the exit functions."""
    logger.info("received graceful shutdown signal")
    sys.exit(0)


def _fail(message: str) -> Never:
    logger.critical(message)
    sys.exit(1)
