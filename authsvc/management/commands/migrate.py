"""`migrate`, safe to run from several servers at once and while older ones serve."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

from django.core.management.commands import migrate
from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from psycopg import errors as postgresql

from authsvc import conf
from authsvc.db import advisory_locks
from authsvc.jobs import shared_tables

PAUSE_SECONDS = 3.0
"""Between two attempts, in which those go on who have waited."""
PATIENCE_SECONDS = 600.0

logger = logging.getLogger(__name__)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["database"]
        # Installations with different namespaces wait for each other as well: they share the queue's tables.
        with advisory_locks.exclusive("migrations", using=alias):
            connection = connections[alias]
            shared_tables.adopt_applied_migrations(connection)
            before = len(MigrationRecorder(connection).applied_migrations())
            with _without_end(connection):
                self._apply(*args, **options)
            count = len(MigrationRecorder(connection).applied_migrations()) - before
        logger.info("migrations applied", extra={"count": count})

    def _apply(self, *args: Any, **options: Any) -> None:
        """Apply what is missing; what has been applied when a table is in use stays, and the rest is tried again."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                super().handle(*args, **options)
            except OperationalError as error:
                if not isinstance(error.__cause__, postgresql.LockNotAvailable) or time.monotonic() > until:
                    raise
                logger.warning("a migration waits for a table that is in use", extra={"error": str(error).strip()})
                time.sleep(PAUSE_SECONDS)
            else:
                return


@contextlib.contextmanager
def _without_end(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let a statement take as long as it takes: the index on a grown table is built outside of transactions.

    Behind a pooler in transaction mode a session has nothing of its own, and what is set may reach somebody else.
    """
    is_own = conf.current().database.prepared_statements_enabled
    if is_own:
        _execute(connection, "SET application_name = 'auth_migrations'", "SET statement_timeout = 0")
    try:
        yield
    finally:
        if is_own:
            # On an error too; should the connection itself be gone, so is what was set.
            with contextlib.suppress(DatabaseError):
                _execute(connection, "RESET application_name", "RESET statement_timeout")


def _execute(connection: BaseDatabaseWrapper, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
