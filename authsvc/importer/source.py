"""The reference database: one read-only snapshot of it, what tables and columns it has, and its rows as a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
from psycopg import conninfo, sql

from authsvc.importer.columns import Columns
from authsvc.importer.errors import ImportRefused

KNOWN_VERSION = "20260625000000"
"""The newest migration of the reference whose tables are all known here."""
CONNECT_SECONDS = 10
# Rows that policies hide would be lost in silence: with row_security off the statement fails instead.
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
class Source:
    """An open snapshot. `tables` is what can be there to read, privileges aside."""

    connection: psycopg.Connection = field(repr=False)
    schema: str
    version: str
    """The newest migration that the reference says it has applied; empty when it does not say."""
    tables: dict[str, Columns] = field(repr=False)
    estimates: dict[str, int] = field(repr=False)
    """Table → about how many rows, for a progress bar; 0 when nobody has counted."""
    unreadable: frozenset[str]
    role: str

    def has(self, table: str, column: str) -> bool:
        return column in self.tables.get(table, {})

    def is_older_than(self, version: str, *, marker: tuple[str, str]) -> bool:
        """Whether it lacks what that migration or a near later one brought: `marker` is a column from then."""
        return not self.has(*marker) or (bool(self.version) and self.version < version)

    def name(self, table: str) -> str:
        """The table's name as SQL."""
        return sql.Identifier(self.schema, table).as_string(None)

    def count(self, table: str) -> int:
        statement = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(self.schema, table))
        row = self.connection.execute(statement).fetchone()
        return int(row[0]) if row else 0

    def stream(self, query: str) -> Iterator[bytes]:
        """The rows of a query in the text form of COPY, one at a time; never more than one in memory."""
        with self.connection.cursor().copy(f"COPY ({query}) TO STDOUT".encode()) as rows:
            for row in rows:
                yield bytes(row)


@contextlib.contextmanager
def open(dsn: str, *, schema: str) -> Iterator[Source]:
    """A snapshot of the reference's database. Raises ImportRefused; no message quotes the connection string."""
    with _connected(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(_SNAPSHOT.encode())
        yield _look(connection, schema)


def _connected(dsn: str) -> psycopg.Connection:
    try:
        host = str(conninfo.conninfo_to_dict(dsn).get("host", ""))
    except psycopg.ProgrammingError:
        raise ImportRefused(
            "the source must be given as postgres://user@host:port/database or as libpq's key=value pairs"
        ) from None
    if "@" in host:
        raise ImportRefused("an @ in the password of the source must be written %40")
    try:
        return psycopg.connect(
            dsn,
            connect_timeout=CONNECT_SECONDS,
            application_name="authsvc import_reference",
            client_encoding="utf8",
            # A pooler in transaction mode would lose them.
            prepare_threshold=None,
        )
    except psycopg.Error as error:
        raise ImportRefused(f"the source cannot be reached: {_in_one_line(error, dsn)}") from None


def _look(connection: psycopg.Connection, schema: str) -> Source:
    found = connection.execute(
        "SELECT oid, has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = %s", [schema]
    ).fetchone()
    role = connection.info.user
    if found is None:
        raise ImportRefused(f"the source has no schema {schema} (--schema names another one)")
    oid, usable = found
    if not usable:
        raise ImportRefused(f"the role {role} has no right to use the schema {schema} of the source")
    rows = connection.execute(_TABLES, [oid]).fetchall()
    tables: dict[str, Columns] = {name: columns for name, _, _, columns in rows}
    if "users" not in tables:
        raise ImportRefused(f"the schema {schema} of the source has no table users: it is not a reference database")
    unreadable = frozenset(name for name, readable, _, _ in rows if not readable)
    version = ""
    if "version" in tables.get("schema_migrations", {}) and "schema_migrations" not in unreadable:
        statement = sql.SQL("SELECT max(version::text) FROM {}").format(sql.Identifier(schema, "schema_migrations"))
        newest = connection.execute(statement).fetchone()
        version = newest[0] or "" if newest else ""
    return Source(
        connection=connection,
        schema=schema,
        version=version,
        tables=tables,
        estimates={name: estimate for name, _, estimate, _ in rows},
        unreadable=unreadable,
        role=role,
    )


def _in_one_line(error: psycopg.Error, dsn: str) -> str:
    password = str(conninfo.conninfo_to_dict(dsn).get("password") or "")
    text = " ".join(str(error).split()) or type(error).__name__
    return text.replace(password, "***") if password else text
