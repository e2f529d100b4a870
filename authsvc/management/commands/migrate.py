"""`migrate`, safe to run from several servers at once, of one installation or of several in one database."""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from authsvc.core.jobs import shared_tables
from authsvc.core.postgresql import locks

logger = logging.getLogger(__name__)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["database"]
        # Installations with different namespaces wait for each other as well: they share the queue's tables.
        with locks.exclusive("migrations", using=alias):
            connection = connections[alias]
            with connection.cursor() as cursor:
                cursor.execute("SET application_name = 'auth_migrations'")
            shared_tables.take_over_migrations(connection)
            before = len(MigrationRecorder(connection).applied_migrations())
            super().handle(*args, **options)
            count = len(MigrationRecorder(connection).applied_migrations()) - before
            with connection.cursor() as cursor:
                cursor.execute("RESET application_name")
        logger.info("migrations applied", extra={"count": count})
