"""Trigram indexes for the search by part of an email address or name, built concurrently where settings ask for it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from psycopg import sql

from accounts.users.search import words
from authsvc import conf
from authsvc.db import advisory_locks
from authsvc.db.sql import namespaced

EXTENSION = "pg_trgm"
_FULL_NAME_INDEX = "users_full_name_search_idx"
_STATISTICS = 500
"""Statistics target that distinguishes a text matching one user in 500 from a rarer one; the default resolves 1 %."""

# The existing indexes among these names, with their validity.
_STATES = """
    SELECT expected.name, i.indisvalid
      FROM unnest(%s::text[]) AS expected (name)
      JOIN pg_index i ON i.indexrelid = to_regclass(quote_ident(expected.name))
"""
_TABLE = """
    SELECT m.amname, c.reltuples
      FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam WHERE c.oid = to_regclass(quote_ident(%s))
"""
_IS_BEING_INDEXED = """
    SELECT FROM pg_stat_progress_create_index
     WHERE datname = current_database() AND relid = to_regclass(quote_ident(%s))
"""
_LIFT_LIMITS = "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)"
_OPERATORS = """
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = %s
"""

logger = logging.getLogger(__name__)


def ensure() -> bool:
    """Build missing and unfinished indexes where settings ask for it and no other process is building them.

    Returns False if another process is building them, which may end before it has built all. Uses its own database
    connections. A failure is logged; without the indexes, the search is slower.
    """
    if not conf.current().index_worker.is_on:
        return True
    try:
        with _connection() as connection, connection.cursor() as cursor:
            if not _should_build(cursor) or not _missing(cursor):
                return True
            with advisory_locks.try_lock(f"search indexes of {namespaced('users')}") as has_lock:
                # A statement may outlive the process that started it, and completes its index.
                if not has_lock or _is_being_indexed(cursor):
                    return False
                _build(cursor)
    except DatabaseError as error:
        logger.warning("search indexes not built", extra={"error": str(error)})
    return True


def _should_build(cursor: CursorWrapper) -> bool:
    """True if the table supports the indexes and is within the size limit of the settings."""
    config = conf.current().index_worker
    cursor.execute(_TABLE, [namespaced("users")])
    row = cursor.fetchone()
    if row is None:
        raise DatabaseError("the table of users does not exist")
    access_method, estimate = row
    return access_method != "orioledb" and (config.ensure_user_search or estimate <= config.max_users)


def _is_being_indexed(cursor: CursorWrapper) -> bool:
    cursor.execute(_IS_BEING_INDEXED, [namespaced("users")])
    return cursor.fetchone() is not None


def expressions() -> dict[str, str]:
    """Name → expression that the statements of the user list search; the planner needs the same expression."""
    return {
        "users_email_search_idx": "email",
        _FULL_NAME_INDEX: "(raw_user_meta_data ->> 'full_name')",
        words.INDEX: f"({words.expression()})",
    }


def _missing(cursor: CursorWrapper) -> dict[str, str]:
    """Name → expression of the indexes that are missing or invalid."""
    expected = {namespaced(name): expression for name, expression in expressions().items()}
    cursor.execute(_STATES, [list(expected)])
    valid = {name for name, is_valid in cursor.fetchall() if is_valid}
    return {name: expression for name, expression in expected.items() if name not in valid}


def _build(cursor: CursorWrapper) -> None:
    """Build the missing indexes one after the other, and set their statistics targets."""
    schema = _schema_of_operators(cursor)
    if schema is None:
        logger.warning("search indexes need the extension %s, which this database does not have", EXTENSION)
        return
    table = sql.Identifier(namespaced("users"))
    for name, expression in _missing(cursor).items():
        index = sql.Identifier(name)
        # Removes the invalid index of an interrupted build, which blocks a new one.
        cursor.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(index))
        cursor.execute(
            sql.SQL("CREATE INDEX CONCURRENTLY {} ON {} USING gin ({} {}.gin_trgm_ops)").format(
                index, table, sql.SQL(expression), sql.Identifier(schema)
            )
        )
        logger.info("search index built", extra={"index": name})
    # The list chooses its statement by the number of users that the planner expects to match.
    cursor.execute(
        sql.SQL("ALTER TABLE {} ALTER COLUMN email SET STATISTICS {}").format(table, sql.Literal(_STATISTICS))
    )
    for name in (_FULL_NAME_INDEX, words.INDEX):
        cursor.execute(
            sql.SQL("ALTER INDEX {} ALTER COLUMN 1 SET STATISTICS {}").format(
                sql.Identifier(namespaced(name)), sql.Literal(_STATISTICS)
            )
        )
    cursor.execute(sql.SQL("ANALYZE {}").format(table))


def _schema_of_operators(cursor: CursorWrapper) -> str | None:
    """The schema of the extension, which is created where possible; None when it is not available."""
    for attempt in (True, False):
        cursor.execute(_OPERATORS, [EXTENSION])
        if row := cursor.fetchone():
            return str(row[0])
        if attempt:
            # Not installed on the server, not permitted, or created concurrently by another process.
            with contextlib.suppress(DatabaseError):
                cursor.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
    return None


@contextlib.contextmanager
def _connection() -> Iterator[BaseDatabaseWrapper]:
    """A connection that builds indexes, which takes longer than the time that a role may permit for a statement."""
    connection = connections.create_connection(DEFAULT_DB_ALIAS)
    try:
        # Behind a pooler in transaction mode, settings of the session would affect other clients.
        if conf.current().database.has_sessions:
            with connection.cursor() as cursor:
                cursor.execute(_LIFT_LIMITS)
        yield connection
    finally:
        connection.close()
