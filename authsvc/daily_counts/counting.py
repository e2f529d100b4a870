"""Counts rows by day in batches of bounded size, and reads the counts."""

# ruff: noqa: S608  (names and expressions of our own; every value is a parameter)

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from authsvc.daily_counts.models import CountProgress, DailyCount
from authsvc.db.sql import fetch_row, fetch_rows, namespaced

DAYS = 30
"""Days that are counted, today included."""
BATCH_SIZE = 20_000
"""Rows that one statement counts; it takes about 0.1 s."""
SETTLING_TIME = timedelta(minutes=2)
"""The job counts rows of this age, because a row is visible only when its transaction has been committed."""
_DAY = "(created_at AT TIME ZONE 'UTC')::date"
_LAST_ID = UUID(int=2**128 - 1)
_MAX_LABEL_LENGTH = 100


class Series(StrEnum):
    SIGN_UPS = "sign_ups"
    SIGN_INS = "sign_ins"
    REFUSED_SIGN_INS = "refused_sign_ins"
    MESSAGES_SENT = "messages_sent"
    MESSAGES_FAILED = "messages_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table with an index on (`created_at`, `id`), and the series to which each of its rows counts."""

    table: str
    """Table name without namespace."""
    series: str
    """SQL expression on a row `t`: its series, or NULL for a row that is not counted."""
    label: str = "''"
    """SQL expression on a row `t`: its part of the series."""

    def rows(self) -> str:
        """SELECT of at most `BATCH_SIZE` rows. Parameters: the position after which they begin, and their last time."""
        return (
            f"SELECT t.created_at, t.id, {self.series} AS series, left({self.label}, {_MAX_LABEL_LENGTH}) AS label"
            f" FROM {namespaced(self.table)} t WHERE (t.created_at, t.id) > (%s, %s) AND t.created_at <= %s"
            f" ORDER BY t.created_at, t.id LIMIT {BATCH_SIZE}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyCounts:
    days: tuple[date, ...]
    """Oldest first; the last one is today."""
    counts: Mapping[tuple[str, str], tuple[int, ...]]
    """(Series, label) → one count per day."""
    behind_since: datetime | None
    """Time since which counts are too low, because the job has not counted the rows yet; None if all are counted."""

    def of(self, series: Series) -> dict[str, tuple[int, ...]]:
        """Label → one count per day."""
        return {label: counts for (name, label), counts in self.counts.items() if name == series}


sources: list[Source] = []


def register(*added: Source) -> None:
    """Called by an app's `tasks.py`."""
    sources.extend(added)


def count_rows(*, at: datetime, seconds: float) -> int:
    """Count rows that have not been counted yet, and return their number.

    Stops after the batch in which `seconds` have passed; the next call continues. Each batch has its own transaction.
    """
    deadline = time.monotonic() + seconds
    total = 0
    for source in sources:
        number = BATCH_SIZE
        while number == BATCH_SIZE:
            number = _count_batch(source, at=at)
            total += number
            if time.monotonic() > deadline:
                return total
    return total


def read_counts(*, at: datetime, includes_recent: bool = True) -> DailyCounts:
    """The counts of the last `DAYS` days. `includes_recent`: with the rows that the job has not counted yet.

    Two statements; they read at most `BATCH_SIZE` rows of each source. Raises django.db errors.
    """
    first = _first_day(at)
    positions = {row.source: row for row in CountProgress.objects.all()}
    sql = f"SELECT '', day, series, label, count FROM {namespaced('daily_counts')} WHERE day >= %s"
    parameters: list[object] = [first.date()]
    counted_until = {}
    for source in sources:
        position = positions.get(source.table)
        counted_until[source.table] = max(position.counted_until, first) if position else first
        if includes_recent:
            sql += (
                f" UNION ALL SELECT '{source.table}', {_DAY}, series, label, count(*)"
                f" FROM ({source.rows()}) recent GROUP BY 2, 3, 4"
            )
            parameters += [counted_until[source.table], position.last_id if position else UUID(int=0), at]
    recent = dict.fromkeys(counted_until, 0)
    days = tuple(first.date() + timedelta(days=number) for number in range(DAYS))
    counts: dict[tuple[str, str], list[int]] = {}
    for table, day, series, label, count in fetch_rows(sql, parameters):
        if table:
            recent[table] += count
        if series is not None and first.date() <= day <= days[-1]:
            counts.setdefault((series, label), [0] * DAYS)[(day - first.date()).days] += count
    behind = [
        until
        for table, until in counted_until.items()
        if recent[table] >= BATCH_SIZE or (not includes_recent and until < at)
    ]
    return DailyCounts(
        days=days,
        counts={key: tuple(numbers) for key, numbers in counts.items()},
        behind_since=min(behind, default=None),
    )


def reset() -> None:
    """Count all rows again, for example after an import. Must run inside a transaction."""
    CountProgress.objects.all().delete()
    DailyCount.objects.all().delete()


def _first_day(at: datetime) -> datetime:
    return datetime.combine(at.astimezone(UTC).date() - timedelta(days=DAYS - 1), datetime.min.time(), UTC)


def _count_batch(source: Source, *, at: datetime) -> int:
    """Count the next rows of a source, and return their number."""
    first, until = _first_day(at), at - SETTLING_TIME
    with transaction.atomic(durable=True):
        # Locked by the first statement, so that no row is counted twice.
        position = fetch_row(
            f"INSERT INTO {namespaced('daily_counts_progress')} AS p (source, counted_until, last_id)"
            " VALUES (%s, %s, %s) ON CONFLICT (source) DO UPDATE SET source = excluded.source"
            " RETURNING counted_until, last_id",
            (source.table, first, UUID(int=0)),
        )
        counted_until, last_id = position or (first, UUID(int=0))
        if counted_until >= until:
            return 0
        after = max((counted_until, last_id), (first, UUID(int=0)))
        last = fetch_row(
            f"WITH batch AS MATERIALIZED ({source.rows()}), stored AS ("
            f" INSERT INTO {namespaced('daily_counts')} AS c (day, series, label, count)"
            f" SELECT {_DAY}, series, label, count(*) FROM batch WHERE series IS NOT NULL GROUP BY 1, 2, 3"
            " ON CONFLICT (day, series, label) DO UPDATE SET count = c.count + excluded.count)"
            " SELECT created_at, id, (SELECT count(*) FROM batch) FROM batch ORDER BY created_at DESC, id DESC LIMIT 1",
            (*after, until),
        )
        number = last[2] if last else 0
        reached = last[:2] if last and number == BATCH_SIZE else (until, _LAST_ID)
        CountProgress.objects.filter(source=source.table).update(counted_until=reached[0], last_id=reached[1])
    return int(number)
