"""`migrate`, safe to run from several servers at once and while older ones serve."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

from django.core.management.commands import migrate
from django.db import DatabaseError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState
from psycopg import errors as postgresql

from authsvc import conf
from authsvc.db import advisory_locks
from authsvc.jobs import shared_tables

PAUSE_SECONDS = 3.0
"""Time between two attempts, in which waiting transactions continue."""
TIMEOUT_SECONDS = 600.0

logger = logging.getLogger(__name__)


class AtomicExecutor(MigrationExecutor):
    """Records an atomic migration in its transaction, so that a killed run leaves no migration applied but unrecorded.

    Django records a migration with constraints or indexes after its transaction.
    """

    def apply_migration(
        self, state: ProjectState, migration: Migration, fake: bool = False, fake_initial: bool = False
    ) -> ProjectState:
        if not migration.atomic:
            return super().apply_migration(state, migration, fake=fake, fake_initial=fake_initial)
        with transaction.atomic(using=self.connection.alias):
            return super().apply_migration(state, migration, fake=fake, fake_initial=fake_initial)


migrate.MigrationExecutor = AtomicExecutor  # type: ignore[attr-defined]  # Django's command has no other hook for it


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["database"]
        # Installations with different namespaces also wait for each other, because they share the tables of the queue.
        with advisory_locks.hold_lock("migrations", using=alias):
            connection = connections[alias]
            shared_tables.adopt_applied_migrations(connection)
            before = len(MigrationRecorder(connection).applied_migrations())
            with _without_statement_timeout(connection):
                self._apply(*args, **options)
            count = len(MigrationRecorder(connection).applied_migrations()) - before
        if not (options["plan"] or options["check_unapplied"]):
            logger.info("migrations applied", extra={"count": count})

    def _apply(self, *args: Any, **options: Any) -> None:
        """Apply missing migrations. When a table is in use, applied ones stay and the others are tried again."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                super().handle(*args, **options)
            except OperationalError as error:
                if not isinstance(error.__cause__, postgresql.LockNotAvailable) or time.monotonic() > deadline:
                    raise
                logger.warning("a migration waits for a table that is in use", extra={"error": str(error).strip()})
                time.sleep(PAUSE_SECONDS)
            else:
                return


@contextlib.contextmanager
def _without_statement_timeout(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Lift the statement timeout, because building an index on a large table takes long.

    Not behind a pooler in transaction mode, where session settings may affect other clients.
    """
    has_own_session = conf.current().database.has_sessions
    if has_own_session:
        _execute(connection, "SET application_name = 'auth_migrations'", "SET statement_timeout = 0")
    try:
        yield
    finally:
        if has_own_session:
            # Also after an error. A lost connection has lost its settings too.
            with contextlib.suppress(DatabaseError):
                _execute(connection, "RESET application_name", "RESET statement_timeout")


def _execute(connection: BaseDatabaseWrapper, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
