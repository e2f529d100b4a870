"""`flush` for tests, which leave a few rows in a few tables."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections, transaction
from psycopg import sql

# In this order no constraint of these tables is violated. The others check foreign keys at the commit.
QUEUE = ("procrastinate_events", "procrastinate_periodic_defers", "procrastinate_jobs", "procrastinate_workers")


class Command(BaseCommand):
    help = (
        "Delete all rows. TRUNCATE would create the files of every table and index anew, which takes ten times as long."
    )

    stealth_options = ("allow_cascade", "database", "inhibit_post_migrate", "interactive", "reset_sequences")

    def handle(self, *, database: str, **_options: Any) -> None:
        connection = connections[database]
        names = connection.introspection.django_table_names(only_existing=True, include_views=False)
        find = sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})")
        tables = (*QUEUE, *names)
        filled = sql.SQL(" UNION ALL ").join(find.format(sql.Literal(name), sql.Identifier(name)) for name in tables)
        with transaction.atomic(using=database), connection.cursor() as cursor:
            cursor.execute(filled)
            for (name,) in cursor.fetchall():
                cursor.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
