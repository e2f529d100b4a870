"""Deletes expired rows: apps register cleanup rules, and one worker applies all of them every minute."""

# ruff: noqa: S608  (names and conditions of our own; every value is a parameter)

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, connection

from authsvc.db.sql import namespaced
from authsvc.observability import metrics

MANDATORY_BATCH_SIZE = 1_000
_BATCH_SIZE = 100
_MAX_BATCHES = 200

Parameters = Callable[[datetime], Sequence[Any] | None]

logger = logging.getLogger(__name__)


def before(age: timedelta) -> Parameters:
    """The parameter of a condition such as `t.created_at < %s`: the time that lies `age` back."""
    return lambda at: (at - age,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRule:
    """Rows of a table to delete or change, and how many of them per run."""

    table: str
    """Table name without namespace."""
    condition: str
    """SQL condition on an expired row `t`."""
    parameters: Parameters
    """The condition's parameters at a time; None disables the rule."""
    change: str = ""
    """SET clause of an UPDATE instead of deleting the row; may use `now()`."""
    max_rows: int = _BATCH_SIZE
    """Rows per run of a rule that is not mandatory."""
    key: str = "id"
    """The primary key."""
    is_mandatory: bool = False
    """True for rows that requests without a session create: they are removed whatever the cleanup setting is, and in
    as many large batches as needed, so that no client fills the table."""

    @property
    def batch_size(self) -> int:
        return MANDATORY_BATCH_SIZE if self.is_mandatory else self.max_rows

    def run(self, *, at: datetime) -> int:
        """Apply the rule once and return the number of rows. Locked rows are left for a later run."""
        parameters = self.parameters(at)
        if parameters is None:
            return 0
        table = namespaced(self.table)
        # ARRAY() evaluates the subquery once; IN (subquery) could evaluate it for every row.
        expired = self._expired_rows()
        action = f"UPDATE {table} SET {self.change}" if self.change else f"DELETE FROM {table}"
        with connection.cursor() as cursor:
            cursor.execute(f"{action} WHERE {self.key} = ANY(ARRAY({expired}))", parameters)
            return int(cursor.rowcount)

    def lock_expired(self, *, at: datetime) -> list[Any]:
        """The keys of the rows that `run` would affect. One statement; must run inside a transaction."""
        parameters = self.parameters(at)
        if parameters is None:
            return []
        with connection.cursor() as cursor:
            cursor.execute(self._expired_rows(), parameters)
            return [key for (key,) in cursor.fetchall()]

    def _expired_rows(self) -> str:
        table, limit = namespaced(self.table), f"LIMIT {self.batch_size:d} FOR UPDATE OF t SKIP LOCKED"
        return f"SELECT t.{self.key} FROM {table} t WHERE {self.condition} {limit}"


rules: list[CleanupRule] = []


def register(*added: CleanupRule) -> None:
    """Add cleanup rules. Called by an app's `tasks.py`."""
    rules.extend(added)


def run(*, at: datetime, only_mandatory: bool = False) -> int:
    """Apply every rule, or the mandatory ones, each batch in its own transaction. Returns the number of rows."""
    affected = 0
    for rule in rules:
        if only_mandatory and not rule.is_mandatory:
            continue
        try:
            affected += _run_batches(rule, at=at)
        except DatabaseError as error:
            logger.warning("database cleanup failed", extra={"table": rule.table, "error": str(error)})
            if not connection.is_usable():  # closed after a timeout; the next rule opens another one
                connection.close()
    if affected:
        metrics.CLEANED_ROWS.inc(affected)
        logger.debug("cleaned up expired or stale rows", extra={"affected_rows": affected})
    return affected


def _run_batches(rule: CleanupRule, *, at: datetime) -> int:
    """Apply a rule once; a mandatory one until no expired row is left, at most `_MAX_BATCHES` times."""
    affected = 0
    for _ in range(_MAX_BATCHES if rule.is_mandatory else 1):
        number = rule.run(at=at)
        affected += number
        if number < rule.batch_size:
            break
    return affected
