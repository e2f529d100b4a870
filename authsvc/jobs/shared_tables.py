"""The queue's tables, shared by the installations of a database: only the first installation migrates them."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import RunSQL
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

APP = "procrastinate"

# Another program's log, which this role may not read, is none of ours.
_LOGS = """
    SELECT relname
      FROM pg_class
     WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema)
       AND relkind = 'r' AND relname LIKE '%django\\_migrations' AND has_table_privilege(oid, 'SELECT')
"""


_IS_OURS = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('procrastinate_jobs')"


class RunSQLByOwner(RunSQL):
    """SQL that the owner of the queue's tables may run alone; where another installation's role is that, it is left."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(_IS_OURS)
            is_ours = cursor.fetchone() == (True,)
        if is_ours:
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def take_over_migrations(connection: BaseDatabaseWrapper) -> None:
    """Note in this installation's migration log what others of the same schema have migrated in the queue's tables.

    Their own log tells nobody else: each has its namespace in front of its name. To be called with the lock held under
    which all of them migrate. Raises django.db errors.
    """
    recorder = MigrationRecorder(connection)
    with connection.cursor() as cursor:
        cursor.execute(_LOGS)
        applied: set[str] = set()
        for [log] in cursor.fetchall():
            cursor.execute(sql.SQL("SELECT name FROM {} WHERE app = %s").format(sql.Identifier(log)), [APP])
            applied.update(name for [name] in cursor.fetchall())
    known = {name for app, name in recorder.applied_migrations() if app == APP}
    for name in sorted(applied - known):
        recorder.record_applied(APP, name)
