"""The queue's tables, shared by the installations of a database: only the first installation migrates them."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper
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
