"""Trigram indexes for the search by part of an address or name, built beside the traffic if an operator wants them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from psycopg import sql

from authsvc import conf
from authsvc.db import advisory_locks
from authsvc.db.sql import namespaced

EXTENSION = "pg_trgm"
INDEXED = {
    "users_email_search_idx": "email",
    "users_full_name_search_idx": "(raw_user_meta_data ->> 'full_name')",
}
"""Name → what the statements of the user list look into; the planner needs the same expression."""

_STATISTICS = 500
"""So that a part of an address or name that fits one user in 500 is told from one that fits few: 1 % by default."""

# Of every name asked for, whether the index is there and whole.
_STATES = """
    SELECT wanted.name, i.indisvalid
      FROM unnest(%s::text[]) AS wanted (name)
      JOIN pg_index i ON i.indexrelid = to_regclass(quote_ident(wanted.name))
"""
_TABLE = """
    SELECT m.amname, c.reltuples, EXISTS (
               SELECT FROM pg_stat_progress_create_index WHERE datname = current_database() AND relid = c.oid)
      FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam WHERE c.oid = to_regclass(quote_ident(%s))
"""
_OPERATORS = """
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = %s
"""

logger = logging.getLogger(__name__)


def ensure() -> None:
    """Build what is missing or was left unfinished, if settings ask for it and nobody else is at it.

    Uses connections of its own. A failure is logged: the search is slower then, and nothing else.
    """
    if not conf.current().index_worker.is_on:
        return
    try:
        with _connection() as connection, connection.cursor() as cursor:
            if not _is_wanted(cursor) or not _missing(cursor):
                return
            with advisory_locks.try_lock(f"search indexes of {namespaced('users')}") as is_ours:
                if is_ours:
                    _build(cursor)
    except DatabaseError as error:
        logger.warning("search indexes not built", extra={"error": str(error)})


def _is_wanted(cursor: CursorWrapper) -> bool:
    """Whether the table can have them, and is not too big for what the settings say."""
    config = conf.current().index_worker
    access_method, estimate, is_being_indexed = _one(cursor, _TABLE, [namespaced("users")])
    if access_method == "orioledb" or is_being_indexed:
        # The process that began an index may be dead and its statement still running: it ends as a whole index.
        return False
    return config.ensure_user_search or estimate <= config.max_users


def _missing(cursor: CursorWrapper) -> dict[str, str]:
    """Name → expression of the indexes that are not there as a whole."""
    cursor.execute(_STATES, [[namespaced(name) for name in INDEXED]])
    whole = {name for name, is_valid in cursor.fetchall() if is_valid}
    return {namespaced(name): what for name, what in INDEXED.items() if namespaced(name) not in whole}


def _build(cursor: CursorWrapper) -> None:
    schema = _schema_of_operators(cursor)
    if schema is None:
        logger.warning("search indexes need the extension %s, which this database does not have", EXTENSION)
        return
    table = sql.Identifier(namespaced("users"))
    for name, expression in _missing(cursor).items():
        index = sql.Identifier(name)
        # What an interrupted build has left behind is no index, and is in the way of one.
        cursor.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(index))
        cursor.execute(
            sql.SQL("CREATE INDEX CONCURRENTLY {} ON {} USING gin ({} {}.gin_trgm_ops)").format(
                index, table, sql.SQL(expression), sql.Identifier(schema)
            )
        )
        logger.info("search index built", extra={"index": name})
    # How the list looks for a filter depends on how many users the planner expects it to fit.
    cursor.execute(
        sql.SQL("ALTER TABLE {} ALTER COLUMN email SET STATISTICS {}").format(table, sql.Literal(_STATISTICS))
    )
    cursor.execute(
        sql.SQL("ALTER INDEX {} ALTER COLUMN 1 SET STATISTICS {}").format(
            sql.Identifier(namespaced("users_full_name_search_idx")), sql.Literal(_STATISTICS)
        )
    )
    cursor.execute(sql.SQL("ANALYZE {}").format(table))


def _schema_of_operators(cursor: CursorWrapper) -> str | None:
    """Where the extension is, which is put in if that is possible; None when it is not to be had."""
    for attempt in (True, False):
        cursor.execute(_OPERATORS, [EXTENSION])
        if found := cursor.fetchone():
            return str(found[0])
        if attempt:
            # Not on this server, not allowed, or put in by somebody else just now.
            with contextlib.suppress(DatabaseError):
                cursor.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
    return None


def _one(cursor: CursorWrapper, statement: str, values: Sequence[Any]) -> tuple[Any, ...]:
    cursor.execute(statement, values)
    found = cursor.fetchone()
    if found is None:
        raise DatabaseError("the table of users is not there")
    return tuple(found)


@contextlib.contextmanager
def _connection() -> Iterator[BaseDatabaseWrapper]:
    connection = connections.create_connection(DEFAULT_DB_ALIAS)
    try:
        yield connection
    finally:
        connection.close()
