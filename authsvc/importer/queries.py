"""The statements that run in our database: from a stream into a staging table, from there into the table itself.

A staging table is called after the table with `staged_` in front, holds what is to be written, and in `skip` why a row
is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from authsvc.db.sql import namespaced
from authsvc.importer.tables import Owner, Table

PAGES_PER_BATCH = 2_000
"""16 MB of the staging table."""

Row = tuple[Any, ...]


def staged(name: str) -> str:
    return f"staged_{name}"


def execute(sql: str, parameters: Sequence[Any] | None = None) -> list[Row]:
    """Run a statement on psycopg's own connection and return its rows; raises psycopg errors, without their context."""
    with connection.connection.cursor() as cursor:
        cursor.execute(sql, parameters, prepare=False)
        return cursor.fetchall() if cursor.description else []


def changed(sql: str) -> int:
    """Run a statement; how many rows it touched."""
    with connection.connection.cursor() as cursor:
        cursor.execute(sql, prepare=False)
        return int(cursor.rowcount)


def count(sql: str, parameters: Sequence[Any] | None = None) -> int:
    return int(execute(sql, parameters)[0][0])


def prepare() -> None:
    """Settings of this transaction: an import takes as long as it takes."""
    execute("SET LOCAL statement_timeout = 0")
    execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    execute("SET LOCAL TimeZone = 'UTC'")
    execute("SET LOCAL work_mem = '64MB'")


def make_staging(table: Table) -> None:
    columns = ", ".join(table.columns)
    name = staged(table.name)
    execute(f"CREATE TEMP TABLE {name} ON COMMIT DROP AS SELECT {columns} FROM {namespaced(table.name)} WITH NO DATA")
    execute(f"ALTER TABLE {name} ADD COLUMN skip text")


def copy_into(table: Table) -> str:
    return f"COPY {staged(table.name)} ({', '.join([*table.columns, 'skip'])}) FROM STDIN"


def analyze(table: Table) -> None:
    # Nobody else counts the rows of a temporary table, and every join that follows is planned by the count.
    execute(f"ANALYZE {staged(table.name)}")


def skip_orphans(table: Table, owner: Owner) -> None:
    """Mark the rows whose owner is not at the source or is not taken."""
    there = f"SELECT FROM {staged(owner.table)} o WHERE o.id = x.{owner.column}"
    condition = f"x.skip IS NULL AND NOT EXISTS ({there} AND o.skip IS NULL)"
    if owner.is_optional:
        condition += f" AND x.{owner.column} IS NOT NULL"
    execute(
        f"UPDATE {staged(table.name)} x SET skip = CASE WHEN EXISTS ({there})"
        f" THEN 'its {owner.noun} is not taken' ELSE 'its {owner.noun} is missing' END WHERE {condition}"
    )


def skip_duplicates(table: Table, column: str) -> None:
    """Mark all but the newest of the rows that share a value."""
    name = staged(table.name)
    execute(f"""
        UPDATE {name} x SET skip = 'the same {column} as a newer row' FROM (
            SELECT id, row_number() OVER (PARTITION BY {column} ORDER BY created_at DESC, id) AS place
            FROM {name} WHERE skip IS NULL AND {column} IS NOT NULL) d
        WHERE d.id = x.id AND d.place > 1
    """)


def skipped(table: Table) -> dict[str, int]:
    """Reason → rows."""
    return dict(
        execute(f"SELECT skip, count(*) FROM {staged(table.name)} WHERE skip IS NOT NULL GROUP BY 1 ORDER BY 1")
    )


def lost(table: Table) -> int:
    """The rows that are not taken although their user is."""
    return count(f"""
        SELECT count(*) FROM {staged(table.name)} x JOIN {staged("users")} u ON u.id = x.user_id AND u.skip IS NULL
        WHERE x.skip IS NOT NULL
    """)


def taken(table: Table) -> int:
    return count(f"SELECT count(*) FROM {staged(table.name)} WHERE skip IS NULL")


def remove_vanished(table: Table) -> int:
    """Delete what the users of the source have here and no longer have there; returns how many rows."""
    if table.owners:
        column, owners = table.owners[0].column, table.owners[0].table
    elif "user_id" in table.columns:
        column, owners = "user_id", "users"
    else:
        return 0
    return changed(f"""
        DELETE FROM {namespaced(table.name)} t USING {staged(owners)} o
        WHERE o.id = t.{column} AND o.skip IS NULL
            AND NOT EXISTS (SELECT FROM {staged(table.name)} x WHERE x.id = t.id AND x.skip IS NULL)
    """)


def vanished_users() -> list[str]:
    """Ids of the users here that the source does not have."""
    found = execute(f"SELECT t.id::text FROM {namespaced('users')} t WHERE NOT EXISTS ({_AT_SOURCE}) ORDER BY 1")
    return [user_id for (user_id,) in found]


def delete_vanished_users() -> int:
    return changed(f"DELETE FROM {namespaced('users')} t WHERE NOT EXISTS ({_AT_SOURCE})")


_AT_SOURCE = f"SELECT FROM {staged('users')} x WHERE x.id = t.id AND x.skip IS NULL"


def release(table: Table) -> None:
    """Empty the unique columns that are about to change, so that no row stands in the way of another one's value."""
    for column in table.released:
        execute(f"""
            UPDATE {namespaced(table.name)} t SET {column} = NULL FROM {staged(table.name)} x
            WHERE x.id = t.id AND x.skip IS NULL AND t.{column} IS NOT NULL AND t.{column} IS DISTINCT FROM x.{column}
        """)


def pages(table: Table) -> int:
    return count("SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int", [staged(table.name)])


def write(table: Table, *, first: int, last: int) -> tuple[int, int]:
    """Bring the rows on these pages of the staging table into the table: how many were new, how many changed."""
    columns = list(table.columns)
    values = [name for name in columns if name != "id"]
    new, old = (", ".join(f"{row}.{name}" for name in values) for row in ("EXCLUDED", "t"))
    found = execute(
        f"""
        WITH written AS (
            INSERT INTO {namespaced(table.name)} AS t ({", ".join(columns)})
            SELECT {", ".join(columns)} FROM {staged(table.name)} x
            WHERE x.skip IS NULL AND x.ctid >= %s::tid AND x.ctid < %s::tid
            ON CONFLICT (id) DO UPDATE SET ({", ".join(values)}) = ROW ({new})
            WHERE ({old}) IS DISTINCT FROM ({new})
            RETURNING xmax = 0 AS is_new)
        SELECT count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new) FROM written
        """,
        [f"({first},0)", f"({last},0)"],
    )
    return found[0][0], found[0][1]


def arrived(table: Table) -> int:
    """How many of the rows that are taken stand in the table now."""
    return count(f"""
        SELECT count(*) FROM {staged(table.name)} x JOIN {namespaced(table.name)} t ON t.id = x.id WHERE x.skip IS NULL
    """)


def advance_sequence() -> None:
    """Imported refresh tokens keep their numbers; the next number comes after them."""
    table = namespaced("refresh_tokens")
    execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} HAVING max(id) IS NOT NULL")


def tidy(table: Table) -> None:
    """Statistics and visibility for the planner, which must not wait for the database to notice by itself."""
    execute(f"VACUUM (ANALYZE) {namespaced(table.name)}")
