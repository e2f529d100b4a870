"""Removal of rows that have had their time: apps declare which of theirs, one worker removes some every minute."""

# ruff: noqa: S608  (names and conditions of our own; every value is a parameter)

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import DatabaseError, connection

from authsvc.db.sql import namespaced
from authsvc.observability import metrics

AT_ONCE = 100

Values = Callable[[datetime], Sequence[Any] | None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """Which rows of a table go, and how many of them in one run."""

    table: str
    """Its name without namespace; its key is `id`."""
    condition: str
    """What holds for a row `t` that has had its time."""
    values: Values
    """The condition's values at a time; None when present settings let such rows be."""
    change: str = ""
    """What is set instead of removing the row; may use `now()`."""
    at_once: int = AT_ONCE

    def run(self, *, at: datetime) -> int:
        """How many rows went or were changed. Rows that somebody has locked are left to a later run."""
        values = self.values(at)
        if values is None:
            return 0
        table = namespaced(self.table)
        # As an array the choice is made once; as a subquery it could be made again for every row.
        chosen = f"SELECT t.id FROM {table} t WHERE {self.condition} LIMIT {self.at_once:d} FOR UPDATE OF t SKIP LOCKED"
        deed = f"UPDATE {table} SET {self.change}" if self.change else f"DELETE FROM {table}"
        with connection.cursor() as cursor:
            cursor.execute(f"{deed} WHERE id = ANY(ARRAY({chosen}))", values)
            return int(cursor.rowcount)


chores: list[Chore] = []


def declare(*declared: Chore) -> None:
    """To be called by an app's `tasks.py`."""
    chores.extend(declared)


def run(*, at: datetime) -> int:
    """Every chore once, each in a transaction of its own; how many rows it came to."""
    affected = 0
    for chore in chores:
        try:
            affected += chore.run(at=at)
        except DatabaseError as error:
            logger.warning("database cleanup failed", extra={"table": chore.table, "error": str(error)})
    if affected:
        metrics.CLEANED_ROWS.inc(affected)
        logger.debug("cleaned up expired or stale rows", extra={"affected_rows": affected})
    return affected
