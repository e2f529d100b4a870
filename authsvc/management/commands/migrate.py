"""`migrate`, safe to run from several servers at once and while older ones serve."""

from __future__ import annotations

import logging
import time
from typing import Any

from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder
from psycopg import errors as postgresql

from authsvc.core.jobs import shared_tables
from authsvc.core.postgresql import locks

LOCK_SECONDS = 2
"""How long a migration waits for a table that others use, because everybody who comes later waits behind it."""
PAUSE_SECONDS = 3.0
"""Between two attempts, in which those go on who have waited."""
PATIENCE_SECONDS = 600.0

logger = logging.getLogger(__name__)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["database"]
        # Installations with different namespaces wait for each other as well: they share the queue's tables.
        with locks.exclusive("migrations", using=alias):
            connection = connections[alias]
            with connection.cursor() as cursor:
                cursor.execute("SET application_name = 'auth_migrations'")
                # An index on a grown table takes as long as it takes.
                cursor.execute("SET statement_timeout = 0")
            self._alias = alias
            shared_tables.take_over_migrations(connection)
            before = len(MigrationRecorder(connection).applied_migrations())
            self._apply(*args, **options)
            count = len(MigrationRecorder(connection).applied_migrations()) - before
            with connection.cursor() as cursor:
                for setting in ("application_name", "statement_timeout", "lock_timeout"):
                    cursor.execute(f"RESET {setting}")
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

    def migration_progress_callback(self, action: str, migration: Migration | None = None, fake: bool = False) -> None:
        super().migration_progress_callback(action, migration, fake)
        if action == "apply_start" and migration is not None:
            # Without a transaction of its own it builds indexes concurrently, which waits without being in the way, and
            # would begin anew after each attempt.
            seconds = LOCK_SECONDS if migration.atomic else 0
            with connections[self._alias].cursor() as cursor:
                cursor.execute(f"SET lock_timeout = '{seconds}s'")
