"""Statements on the target database: from a stream into staging tables, and from these into the tables.

A staging table is named `staged_<table>`. Its column `skip` holds the reason not to import a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from authsvc import conf
from authsvc.db.sql import namespaced
from authsvc.importer.table_mapping import Owner, Table

PAGES_PER_BATCH = 2_000
"""Pages of the staging table per statement (16 MB)."""

Row = tuple[Any, ...]


def staging_table(name: str) -> str:
    return f"staged_{name}"


def execute(sql: str, parameters: Sequence[Any] | None = None) -> list[Row]:
    """Run a statement on the psycopg connection and return its rows. Raises psycopg errors."""
    with connection.connection.cursor() as cursor:
        cursor.execute(sql, parameters, prepare=False)
        return cursor.fetchall() if cursor.description else []


def execute_counted(sql: str) -> int:
    """Run a statement and return the number of affected rows."""
    with connection.connection.cursor() as cursor:
        cursor.execute(sql, prepare=False)
        return int(cursor.rowcount)


def count(sql: str, parameters: Sequence[Any] | None = None) -> int:
    return int(execute(sql, parameters)[0][0])


def configure_transaction() -> None:
    """Disable timeouts for this transaction."""
    execute("SET LOCAL statement_timeout = 0")
    execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    execute("SET LOCAL TimeZone = 'UTC'")
    execute("SET LOCAL work_mem = '64MB'")


def create_staging_table(table: Table) -> None:
    """Create the temporary table of a table, which the end of the transaction drops."""
    columns = ", ".join(table.columns)
    name = staging_table(table.name)
    execute(f"CREATE TEMP TABLE {name} ON COMMIT DROP AS SELECT {columns} FROM {namespaced(table.name)} WITH NO DATA")
    execute(f"ALTER TABLE {name} ADD COLUMN skip text")


def copy_into(table: Table) -> str:
    """The COPY statement that fills the staging table of a table."""
    return f"COPY {staging_table(table.name)} ({', '.join([*table.columns, 'skip'])}) FROM STDIN"


def analyze(table: Table) -> None:
    # Autovacuum does not analyze temporary tables, and the planner needs their row counts.
    execute(f"ANALYZE {staging_table(table.name)}")


def skip_orphans(table: Table, owner: Owner) -> None:
    """Mark rows whose owner is missing at the source or skipped."""
    owner_row = f"SELECT FROM {staging_table(owner.table)} o WHERE o.id = x.{owner.column}"
    condition = f"x.skip IS NULL AND NOT EXISTS ({owner_row} AND o.skip IS NULL)"
    if owner.is_optional:
        condition += f" AND x.{owner.column} IS NOT NULL"
    execute(
        f"UPDATE {staging_table(table.name)} x SET skip = CASE WHEN EXISTS ({owner_row})"
        f" THEN 'its {owner.noun} is skipped' ELSE 'its {owner.noun} is missing' END WHERE {condition}"
    )


def skip_duplicates(table: Table, column: str) -> None:
    """Mark all but the newest row of each value."""
    name = staging_table(table.name)
    execute(f"""
        UPDATE {name} x SET skip = 'the same {column} as a newer row' FROM (
            SELECT id, row_number() OVER (PARTITION BY {column} ORDER BY created_at DESC, id) AS place
            FROM {name} WHERE skip IS NULL AND {column} IS NOT NULL) d
        WHERE d.id = x.id AND d.place > 1
    """)


def skip_reasons(table: Table) -> dict[str, int]:
    """Reason → number of rows."""
    return dict(
        execute(f"SELECT skip, count(*) FROM {staging_table(table.name)} WHERE skip IS NOT NULL GROUP BY 1 ORDER BY 1")
    )


def count_lost(table: Table) -> int:
    """The number of skipped rows of imported users."""
    return count(f"""
        SELECT count(*) FROM {staging_table(table.name)} x
        JOIN {staging_table("users")} u ON u.id = x.user_id AND u.skip IS NULL
        WHERE x.skip IS NOT NULL
    """)


def count_accepted(table: Table) -> int:
    """The number of staged rows that are not skipped."""
    return count(f"SELECT count(*) FROM {staging_table(table.name)} WHERE skip IS NULL")


def delete_missing_rows(table: Table) -> int:
    """Delete rows of imported users that are no longer at the source; returns the number of rows."""
    if table.owners:
        column, owners = table.owners[0].column, table.owners[0].table
    elif "user_id" in table.columns:
        column, owners = "user_id", "users"
    else:
        return 0
    return execute_counted(f"""
        DELETE FROM {namespaced(table.name)} t USING {staging_table(owners)} o
        WHERE o.id = t.{column} AND o.skip IS NULL
            AND NOT EXISTS (SELECT FROM {staging_table(table.name)} x WHERE x.id = t.id AND x.skip IS NULL)
    """)


def users_missing_at_source() -> list[str]:
    """Ids of the users in this database that the source lacks."""
    ids = execute(f"SELECT t.id::text FROM {namespaced('users')} t WHERE NOT EXISTS ({_AT_SOURCE}) ORDER BY 1")
    return [user_id for (user_id,) in ids]


def delete_users_missing_at_source() -> int:
    """Delete the users that the source lacks, with all their rows; returns the number of users."""
    return execute_counted(f"DELETE FROM {namespaced('users')} t WHERE NOT EXISTS ({_AT_SOURCE})")


_AT_SOURCE = f"SELECT FROM {staging_table('users')} x WHERE x.id = t.id AND x.skip IS NULL"


def clear_reassigned_values(table: Table) -> None:
    """Set unique columns that will change to NULL, so that values can move between rows."""
    for column in table.reassignable:
        execute(f"""
            UPDATE {namespaced(table.name)} t SET {column} = NULL FROM {staging_table(table.name)} x
            WHERE x.id = t.id AND x.skip IS NULL AND t.{column} IS NOT NULL AND t.{column} IS DISTINCT FROM x.{column}
        """)


def pages(table: Table) -> int:
    """The size of the staging table in pages."""
    return count(
        "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int", [staging_table(table.name)]
    )


def write(table: Table, *, first: int, last: int) -> tuple[int, int]:
    """Upsert the rows on these pages of the staging table; returns the numbers of new and changed rows."""
    # The join reads the table as it was before the statement.
    columns = list(table.columns)
    values = [name for name in columns if name != "id"]
    new, old = (", ".join(f"{row}.{name}" for name in values) for row in ("EXCLUDED", "t"))
    counts = execute(
        f"""
        WITH written AS (
            INSERT INTO {namespaced(table.name)} AS t ({", ".join(columns)})
            SELECT {", ".join(columns)} FROM {staging_table(table.name)} x
            WHERE x.skip IS NULL AND x.ctid >= %s::tid AND x.ctid < %s::tid
            ON CONFLICT ({table.key}) DO UPDATE SET ({", ".join(values)}) = ROW ({new})
            WHERE ({old}) IS DISTINCT FROM ({new})
            RETURNING id)
        SELECT count(*) FILTER (WHERE old.id IS NULL), count(old.id)
        FROM written LEFT JOIN {namespaced(table.name)} old USING (id)
        """,
        [f"({first},0)", f"({last},0)"],
    )
    return counts[0][0], counts[0][1]


def count_written(table: Table) -> int:
    """The number of accepted rows that are in the table now."""
    return count(f"""
        SELECT count(*) FROM {staging_table(table.name)} x
        JOIN {namespaced(table.name)} t ON t.id = x.id WHERE x.skip IS NULL
    """)


def advance_sequence() -> None:
    """Set the id sequence of refresh tokens behind the imported ids."""
    table = namespaced("refresh_tokens")
    execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} HAVING max(id) IS NOT NULL")


def vacuum(table: Table) -> None:
    """Update the planner's statistics and the visibility map at once."""
    # Behind a pooler in transaction mode, settings of the session would affect other clients.
    is_unlimited = conf.current().database.has_sessions
    if is_unlimited:
        execute("SET statement_timeout = 0")
    try:
        execute(f"VACUUM (ANALYZE) {namespaced(table.name)}")
    finally:
        if is_unlimited:
            execute("RESET statement_timeout")
