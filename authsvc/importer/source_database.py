"""The reference database: a read-only snapshot, its tables and columns, and its rows as a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
from psycopg import conninfo, sql

from authsvc.importer.column_rules import Columns
from authsvc.importer.report import ImportRejected

KNOWN_VERSION = "20260625000000"
"""The newest migration of the reference that this importer supports."""
CONNECT_SECONDS = 10
# With row_security off, a statement fails instead of omitting rows that policies hide.
_SNAPSHOT = """
    SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL bytea_output = 'hex';
    SET LOCAL row_security = off; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0
"""
_TABLES = """
    SELECT c.relname, has_table_privilege(c.oid, 'SELECT'), greatest(c.reltuples, 0)::bigint,
        coalesce(json_object_agg(a.attname, format_type(a.atttypid, a.atttypmod)) FILTER (WHERE a.attname IS NOT NULL),
            '{}')
    FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a
        ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = %s
    GROUP BY c.oid, c.relname, c.reltuples
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDatabase:
    """An open snapshot. `tables` includes tables that the role may not read."""

    connection: psycopg.Connection = field(repr=False)
    schema: str
    version: str
    """The newest applied migration of the reference; empty if unknown."""
    tables: dict[str, Columns] = field(repr=False)
    estimates: dict[str, int] = field(repr=False)
    """Table → estimated row count for a progress bar; 0 without statistics."""
    unreadable: frozenset[str]
    role: str

    def has(self, table: str, column: str) -> bool:
        return column in self.tables.get(table, {})

    def is_older_than(self, version: str, *, marker: tuple[str, str]) -> bool:
        """True if the source predates a migration. `marker` is a column added by it or soon after."""
        return not self.has(*marker) or (bool(self.version) and self.version < version)

    def name(self, table: str) -> str:
        """The table's qualified and quoted name."""
        return sql.Identifier(self.schema, table).as_string(None)

    def count(self, table: str) -> int:
        statement = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(self.schema, table))
        row = self.connection.execute(statement).fetchone()
        return int(row[0]) if row else 0

    def stream(self, query: str) -> Iterator[bytes]:
        """The rows of a query in COPY text format, one at a time."""
        with self.connection.cursor().copy(f"COPY ({query}) TO STDOUT".encode()) as rows:
            for row in rows:
                yield bytes(row)


@contextlib.contextmanager
def open(dsn: str, *, schema: str) -> Iterator[SourceDatabase]:
    """Open a snapshot. Raises ImportRejected, whose message does not contain the connection string."""
    with _connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(_SNAPSHOT.encode())
        yield _read_schema(connection, schema)


def _connect(dsn: str) -> psycopg.Connection:
    try:
        host = str(conninfo.conninfo_to_dict(dsn).get("host", ""))
    except psycopg.ProgrammingError:
        raise ImportRejected(
            "specify the source as postgres://user@host:port/database or as libpq's key=value pairs"
        ) from None
    if "@" in host:
        raise ImportRejected("write an @ in the password of the source as %40")
    try:
        return psycopg.connect(
            dsn,
            connect_timeout=CONNECT_SECONDS,
            application_name="authsvc import_reference",
            client_encoding="utf8",
            # Prepared statements do not work with a pooler in transaction mode.
            prepare_threshold=None,
        )
    except psycopg.Error as error:
        raise ImportRejected(f"the source cannot be reached: {_error_text(error, dsn)}") from None


def _read_schema(connection: psycopg.Connection, schema: str) -> SourceDatabase:
    namespace = connection.execute(
        "SELECT oid, has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = %s", [schema]
    ).fetchone()
    role = connection.info.user
    if namespace is None:
        raise ImportRejected(f"the source has no schema {schema} (--schema names another one)")
    oid, usable = namespace
    if not usable:
        raise ImportRejected(f"the role {role} has no right to use the schema {schema} of the source")
    rows = connection.execute(_TABLES, [oid]).fetchall()
    tables: dict[str, Columns] = {name: columns for name, _, _, columns in rows}
    if "users" not in tables:
        raise ImportRejected(f"the schema {schema} of the source has no table users: it is not a reference database")
    unreadable = frozenset(name for name, readable, _, _ in rows if not readable)
    version = ""
    if "version" in tables.get("schema_migrations", {}) and "schema_migrations" not in unreadable:
        statement = sql.SQL("SELECT max(version::text) FROM {}").format(sql.Identifier(schema, "schema_migrations"))
        newest = connection.execute(statement).fetchone()
        version = newest[0] or "" if newest else ""
    return SourceDatabase(
        connection=connection,
        schema=schema,
        version=version,
        tables=tables,
        estimates={name: estimate for name, _, estimate, _ in rows},
        unreadable=unreadable,
        role=role,
    )


def _error_text(error: psycopg.Error, dsn: str) -> str:
    password = str(conninfo.conninfo_to_dict(dsn).get("password") or "")
    text = " ".join(str(error).split()) or type(error).__name__
    return text.replace(password, "***") if password else text
