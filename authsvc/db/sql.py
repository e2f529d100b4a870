"""Runs hand-written SQL, and puts the operator's namespace before table names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import psycopg
from django.db import connection
from django.db.models import Model
from django.db.models.signals import class_prepared

from authsvc import conf
from authsvc.db import timestamps

Value = TypeVar("Value")


def namespace_prefix(namespace: str) -> str:
    """`""` → `""`, `auth` → `auth_`, `svc_` → `svc_`, `Auth` → `auth_`: PostgreSQL folds names without quotes too."""
    prefix = namespace.lower()
    return prefix if not prefix or prefix.endswith("_") else f"{prefix}_"


def namespaced(name: str) -> str:
    """`name` of a table, index or constraint with DB_NAMESPACE before it, which is fixed for the life of a process."""
    return namespace_prefix(conf.current().database.namespace) + name


def json_object(column: str) -> str:
    """The expression for a jsonb column as JSON text, `{}` for NULL and for a value that is not an object."""
    return f"CASE jsonb_typeof({column}) WHEN 'object' THEN {column}::text ELSE '{{}}' END"


def fetch_rows(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows, `[]` when it returns none.

    Uses psycopg directly: prepared, results in binary form, without the debug and conversion layers of Django's cursor.
    Takes part in the caller's transaction and in query counting like any other statement. Raises django.db errors.
    """
    connection.ensure_connection()
    if connection.queries_logged:
        connection.queries_log.append({"sql": sql, "time": "0"})
    with connection.wrap_database_errors, connection.connection.cursor(binary=True) as cursor:
        cursor.execute(sql, parameters, prepare=conf.current().database.prepared_statements_enabled or None)
        # `cursor.description` would build an object per column, which takes as long as a short statement.
        if not cursor.pgresult or not cursor.pgresult.nfields:
            return []
        try:
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows
        except psycopg.DataError:
            return timestamps.read_rows(cursor.pgresult, connection.connection)


def fetch_row(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Run one statement and return its first row, or None."""
    rows = fetch_rows(sql, parameters)
    return rows[0] if rows else None


class QueryPlan(NamedTuple):
    """Estimates of the planner."""

    rows: int
    cost: float
    """In units of the planner."""


def explain(sql: str, parameters: Sequence[Any]) -> QueryPlan:
    """The plan of a query, which is not run."""
    row = fetch_row(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
    plan = row[0] if row else "[]"
    top = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return QueryPlan(int(top["Plan Rows"]), float(top["Total Cost"]))


def _prefix_foreign_table(sender: type[Model], **_: object) -> None:
    # Of Django's contrib apps and its migration log. Tables of the job queue are not managed, and keep their names.
    options = sender._meta
    start = namespace_prefix(conf.current().database.namespace)
    if start and options.managed and not options.db_table.startswith(start):
        options.db_table = start + options.db_table


def prefix_foreign_tables() -> None:
    """Put the namespace before the tables of third-party apps. Must be called before any model is loaded."""
    class_prepared.connect(_prefix_foreign_table, dispatch_uid="authsvc.db.sql.prefix")
