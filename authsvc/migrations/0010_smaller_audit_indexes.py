"""Orders the index of audit entries by time ascending, and removes the index of sign-ins.

New entries then extend the last page of the index by time, which PostgreSQL fills; in descending order it split the
first page in halves. The index by user and kind finds sign-ins too. The index of each partition is built beside running
requests, then one short transaction replaces the indexes of the table. An interrupted run can be repeated.
"""

from django.db import migrations, models, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.utils import CursorWrapper
from django.db.migrations.state import StateApps

from authsvc.db.postgresql.base import LOCK_SECONDS
from authsvc.db.sql import namespaced

TABLE = namespaced("audit_log_entries")
HISTORY = namespaced("audit_log_entries_history")
BY_TIME = namespaced("audit_log_entries_created_at_idx")
SIGN_INS = namespaced("audit_log_entries_sign_in_idx")
FORMER = {
    "created_at": "(created_at DESC, id DESC)",
    "sign_in": "((payload ->> 'actor_id'), created_at DESC) WHERE payload ->> 'action'"
    " IN ('login', 'user_signedup', 'verification_attempted', 'recovery_code_used')",
}


def replace(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [SIGN_INS])
        if cursor.fetchall() == [(None,)]:
            return
        for partition in partitions_of(cursor):
            name = f"{partition}_time_idx"
            cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name])
            if cursor.fetchall() == [(True,)]:
                continue  # built by an attempt that found the table in use
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            cursor.execute(f"CREATE INDEX CONCURRENTLY {name} ON {partition} (created_at, id)")
        with transaction.atomic(using=connection.alias):
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            cursor.execute(f"DROP INDEX {BY_TIME}, {SIGN_INS}")
            # Attaches the indexes of the partitions.
            cursor.execute(f"CREATE INDEX {BY_TIME} ON {TABLE} (created_at, id)")


def restore(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Build the former indexes; blocks the audit trail meanwhile."""
    connection = schema_editor.connection
    with connection.cursor() as cursor, transaction.atomic(using=connection.alias):
        cursor.execute(f"DROP INDEX {BY_TIME}")
        for name, content in FORMER.items():
            # Former migrations refer to the names of the indexes of this partition.
            for table in (HISTORY, TABLE):
                cursor.execute(f"CREATE INDEX {table}_{name}_idx ON {table} {content}")


def partitions_of(cursor: CursorWrapper) -> list[str]:
    cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(%s)", [TABLE])
    return [name for (name,) in cursor.fetchall()]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("core", "0009_audit_partitions")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(replace, restore)],
            state_operations=[
                migrations.RemoveIndex("auditlogentry", BY_TIME),
                migrations.AddIndex("auditlogentry", models.Index(fields=["created_at", "id"], name=BY_TIME)),
            ],
        ),
    ]
