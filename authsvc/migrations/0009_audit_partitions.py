"""Partitions the audit trail by month.

The existing table becomes the first partition without being copied: a constraint is validated and an index built beside
running requests, then one short transaction puts a partitioned table in its place. An interrupted run can be repeated.
"""

# ruff: noqa: S608  (own names)

import contextlib
from datetime import UTC, datetime, timedelta

from django.db import DatabaseError, migrations, models, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.utils import CursorWrapper
from django.db.migrations.state import StateApps
from django.utils import timezone

from authsvc.audit import partitions
from authsvc.db.postgresql.base import LOCK_SECONDS
from authsvc.db.sql import namespaced

TABLE = namespaced("audit_log_entries")
HISTORY = namespaced("audit_log_entries_history")
DEFAULT = namespaced("audit_log_entries_default")
BOUND = namespaced("audit_log_entries_history_bound")
KEY = namespaced("audit_log_entries_history_key")
INDEXES = {
    namespaced(f"audit_log_entries_{name}_idx"): namespaced(f"audit_log_entries_history_{name}_idx")
    for name in ("created_at", "user_kind", "other_actor", "sign_in", "impersonator")
}
# Entries are stored while the constraint is validated, which takes less time than this.
LONGEST_RUN = timedelta(days=7)
# Copies the privileges of a table to its partitioned successor.
GRANT = f"""
    DO $$ DECLARE r record; BEGIN
        FOR r IN
            SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS role,
                privilege_type, is_grantable
            FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass('{HISTORY}') AND grantee <> relowner
        LOOP
            EXECUTE format('GRANT %s ON {TABLE} TO %s%s', r.privilege_type, r.role,
                CASE WHEN r.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
        END LOOP;
    END $$
"""


def is_partitioned(cursor: CursorWrapper) -> bool:
    cursor.execute("SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)", [TABLE])
    ((is_it,),) = cursor.fetchall()
    return bool(is_it)


def partition(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        if is_partitioned(cursor):
            return
        end = partitions.next_month(timezone.now() + LONGEST_RUN)
        cursor.execute(f"UPDATE {TABLE} SET created_at = %s WHERE created_at IS NULL", [datetime.fromtimestamp(0, UTC)])
        with transaction.atomic(using=connection.alias):
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            bound_table(cursor, end=end)
        try:
            cursor.execute(f"ALTER TABLE {TABLE} VALIDATE CONSTRAINT {BOUND}")
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {KEY}")
            cursor.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {KEY} ON {TABLE} (id, created_at)")
            with transaction.atomic(using=connection.alias):
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                replace_table(cursor, end=end)
                partitions.create_month(cursor, end)
        except BaseException:
            # Servers of the former version could store no entry from `end` on.
            with contextlib.suppress(DatabaseError), transaction.atomic(using=connection.alias):
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                cursor.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS {BOUND}")
            raise


def bound_table(cursor: CursorWrapper, *, end: datetime) -> None:
    """Permit no time outside the first partition. Imported entries can have later ones; those are moved."""
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {DEFAULT} (LIKE {TABLE} INCLUDING DEFAULTS)")
    cursor.execute(f"ALTER TABLE {DEFAULT} ALTER created_at SET NOT NULL")
    cursor.execute(
        f"WITH moved AS (DELETE FROM {TABLE} WHERE created_at >= %s RETURNING *)"
        f" INSERT INTO {DEFAULT} SELECT * FROM moved",
        [end],
    )
    cursor.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS {BOUND}")
    cursor.execute(
        f"ALTER TABLE {TABLE} ADD CONSTRAINT {BOUND}"
        f" CHECK (created_at IS NOT NULL AND created_at < '{end.isoformat()}') NOT VALID"
    )


def replace_table(cursor: CursorWrapper, *, end: datetime) -> None:
    cursor.execute(f"ALTER TABLE {TABLE} RENAME TO {HISTORY}")
    # The constraint proves that no value is NULL.
    cursor.execute(f"ALTER TABLE {HISTORY} ALTER created_at SET NOT NULL")
    cursor.execute(f"SELECT conname FROM pg_constraint WHERE conrelid = '{HISTORY}'::regclass AND contype = 'p'")
    ((primary_key,),) = cursor.fetchall()
    cursor.execute(f'ALTER TABLE {HISTORY} DROP CONSTRAINT "{primary_key}"')
    cursor.execute(f"ALTER TABLE {HISTORY} ADD CONSTRAINT {KEY} PRIMARY KEY USING INDEX {KEY}")
    for name, renamed in INDEXES.items():
        cursor.execute(f"ALTER INDEX {name} RENAME TO {renamed}")
    cursor.execute(
        f"CREATE TABLE {TABLE} (LIKE {HISTORY} INCLUDING DEFAULTS, PRIMARY KEY (id, created_at))"
        " PARTITION BY RANGE (created_at)"
    )
    for name, renamed in INDEXES.items():
        cursor.execute("SELECT pg_get_indexdef(%s::regclass)", [renamed])
        ((definition,),) = cursor.fetchall()
        _, _, content = definition.partition(" USING ")
        cursor.execute(f"CREATE INDEX {name} ON {TABLE} USING {content}".replace("%", "%%"))
    # The constraint proves that all rows are within the bounds.
    cursor.execute(
        f"ALTER TABLE {TABLE} ATTACH PARTITION {HISTORY} FOR VALUES FROM (MINVALUE) TO ('{end.isoformat()}')"
    )
    cursor.execute(f"ALTER TABLE {HISTORY} DROP CONSTRAINT {BOUND}")
    cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {DEFAULT} DEFAULT")
    cursor.execute(GRANT)


def merge(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Move all entries back into one table; blocks the audit trail meanwhile."""
    connection = schema_editor.connection
    with connection.cursor() as cursor, transaction.atomic(using=connection.alias):
        cursor.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {HISTORY}")
        cursor.execute(f"INSERT INTO {HISTORY} SELECT * FROM {TABLE}")
        cursor.execute(f"DROP TABLE {TABLE}")
        cursor.execute(f"ALTER TABLE {HISTORY} DROP CONSTRAINT {KEY}")
        cursor.execute(f"ALTER TABLE {HISTORY} ADD PRIMARY KEY (id)")
        cursor.execute(f"ALTER TABLE {HISTORY} ALTER created_at DROP NOT NULL")
        cursor.execute(f"ALTER TABLE {HISTORY} RENAME TO {TABLE}")
        for name, renamed in INDEXES.items():
            cursor.execute(f"ALTER INDEX {renamed} RENAME TO {name}")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("core", "0008_audit_of_impersonation")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(partition, merge)],
            state_operations=[
                migrations.AlterField("auditlogentry", "created_at", models.DateTimeField()),
            ],
        ),
    ]
