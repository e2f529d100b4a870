"""What hand-written SQL needs: names under the operator's namespace, and one way to run a statement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Model
from django.db.models.signals import class_prepared

from authsvc import conf


def prefix(namespace: str) -> str:
    """`""` → `""`, `auth` → `auth_`, `svc_` → `svc_`."""
    return namespace if not namespace or namespace.endswith("_") else f"{namespace}_"


def namespaced(name: str) -> str:
    """A table, index or constraint name under DB_NAMESPACE, which is fixed for the life of a process."""
    return prefix(conf.current().database.namespace) + name


def rows(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows, `[]` when it has none to return.

    Goes to psycopg directly: prepared, results in binary form, without the debug and conversion layers of Django's
    cursor. Takes part in the caller's transaction and in query counting like any other statement.
    Raises django.db errors.
    """
    connection.ensure_connection()
    if connection.queries_logged:
        connection.queries_log.append({"sql": sql, "time": "0"})
    with connection.wrap_database_errors, connection.connection.cursor(binary=True) as cursor:
        cursor.execute(sql, parameters, prepare=conf.current().database.prepared_statements_enabled or None)
        # `cursor.description` asks the same of every column, one by one: as much work as a short statement.
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def row(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The only row of a statement, or None."""
    found = rows(sql, parameters)
    return found[0] if found else None


class Planned(NamedTuple):
    rows: int
    cost: float
    """In units of the planner."""


def planned(sql: str, parameters: Sequence[Any]) -> Planned:
    """What the planner expects of a query, which is not run."""
    found = row(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
    plan = found[0] if found else "[]"
    top = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return Planned(int(top["Plan Rows"]), float(top["Total Cost"]))


def _prefix_foreign_table(sender: type[Model], **_: object) -> None:
    # Django's contrib tables and its migration log have names of their own making; the queue's, which we do not manage,
    # belong to their library.
    options = sender._meta
    start = prefix(conf.current().database.namespace)
    if start and options.managed and not options.db_table.startswith(start):
        options.db_table = start + options.db_table


def prefix_foreign_tables() -> None:
    """Put the namespace before the tables of apps that are not ours; to be called before any model is loaded."""
    class_prepared.connect(_prefix_foreign_table, dispatch_uid="authsvc.db.sql.prefix")
