"""Migrations of the queue's tables, which all installations in one database share: the first one applies them."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import RunSQL
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

APP = "procrastinate"

# Migration logs that this role may not read belong to other programs.
_LOGS = """
    SELECT relname
      FROM pg_class
     WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema)
       AND relkind = 'r' AND relname LIKE '%django\\_migrations' AND has_table_privilege(oid, 'SELECT')
"""
_IS_OWNER = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('procrastinate_jobs')"


class RunSQLByOwner(RunSQL):
    """SQL that only the owner of the queue's tables may run. It is skipped if another installation's role owns them."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(_IS_OWNER)
            is_owner = cursor.fetchone() == (True,)
        if is_owner:
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def adopt_applied_migrations(connection: BaseDatabaseWrapper) -> None:
    """Record migrations of the queue's tables that other installations in the schema applied.

    Each installation has its own migration log, whose name begins with its namespace. The caller must hold the advisory
    lock of migrations. Raises django.db errors.
    """
    recorder = MigrationRecorder(connection)
    with connection.cursor() as cursor:
        cursor.execute(_LOGS)
        applied: set[str] = set()
        for [log] in cursor.fetchall():
            cursor.execute(sql.SQL("SELECT name FROM {} WHERE app = %s").format(sql.Identifier(log)), [APP])
            applied.update(name for [name] in cursor.fetchall())
    recorded = {name for app, name in recorder.applied_migrations() if app == APP}
    for name in sorted(applied - recorded):
        recorder.record_applied(APP, name)
