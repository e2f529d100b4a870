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
from django.db.models import QuerySet

from authsvc.daily_counts.models import CountProgress, DailyCount
from authsvc.db.sql import fetch_row, fetch_rows, namespaced

DAYS = 30
"""Days that are counted, today included."""
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
    batch_size: int = 20_000
    """Rows that one statement counts; it takes about 0.1 s."""

    def later_rows(self) -> str:
        """SELECT of `batch_size` rows. Parameters: the position after which they begin, and their last time."""
        return (
            f"{self._select()} WHERE (t.created_at, t.id) > (%s, %s) AND t.created_at <= %s"
            f" ORDER BY t.created_at, t.id LIMIT {self.batch_size}"
        )

    def earlier_rows(self) -> str:
        """SELECT of `batch_size` rows. Parameters: the position before which they end, and their first time."""
        return (
            f"{self._select()} WHERE (t.created_at, t.id) < (%s, %s) AND t.created_at >= %s"
            f" ORDER BY t.created_at DESC, t.id DESC LIMIT {self.batch_size}"
        )

    def _select(self) -> str:
        return (
            f"SELECT t.created_at, t.id, {self.series} AS series, left({self.label}, {_MAX_LABEL_LENGTH}) AS label"
            f" FROM {namespaced(self.table)} t"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyCounts:
    days: tuple[date, ...]
    """Oldest first; the last one is today."""
    counts: Mapping[tuple[str, str], tuple[int, ...]]
    """(Series, label) → one count per day."""
    behind_since: datetime | None
    """Time since which counts are too low, because the job has not counted the rows yet; None if all are counted."""
    missing_before: datetime | None
    """The same for rows before this time, which the job counts from the newest to the oldest."""

    def of(self, series: Series) -> dict[str, tuple[int, ...]]:
        """Label → one count per day."""
        return {label: counts for (name, label), counts in self.counts.items() if name == series}


sources: list[Source] = []


def register(*added: Source) -> None:
    """Add sources. Called by an app's `tasks.py`."""
    sources.extend(added)


def count_rows(*, at: datetime, seconds: float) -> int:
    """Count rows that have not been counted yet, and return their number.

    New rows come first, then those before the first run, from the newest to the oldest. Stops after the batch in which
    `seconds` have passed; the next call continues. Each batch has its own transaction.
    """
    deadline = time.monotonic() + seconds
    total = 0
    for count_batch in (count_later_rows, count_earlier_rows):
        pending = list(sources)
        while pending:
            for source in tuple(pending):
                number = count_batch(source, at=at)
                total += number
                if number < source.batch_size:
                    pending.remove(source)
                if time.monotonic() > deadline:
                    return total
    return total


def read_counts(*, at: datetime, includes_recent: bool = True) -> DailyCounts:
    """The counts of the last `DAYS` days. `includes_recent`: with the rows that the job has not counted yet.

    Two statements; they read at most `batch_size` rows of each source. Raises django.db errors.
    """
    first = _first_day(at)
    # One statement, so that the counts are those up to the positions while the job goes on.
    stored = fetch_rows(
        "SELECT NULL, day, series, label, count, NULL::timestamptz, NULL::uuid, NULL::timestamptz"
        f" FROM {namespaced('daily_counts')} WHERE day >= %s UNION ALL"
        " SELECT source, NULL, NULL, NULL, NULL, counted_until, last_id, counted_from"
        f" FROM {namespaced('daily_counts_progress')}",
        [first.date()],
    )
    positions = {row[0]: row[5:] for row in stored if row[0]}
    rows = [("", *row[1:5]) for row in stored if row[0] is None]
    statements = []
    parameters: list[object] = []
    counted_until = {}
    for source in sources:
        until, last_id, _ = positions.get(source.table, (first, UUID(int=0), None))
        counted_until[source.table] = max(until, first)
        statements.append(
            f"SELECT '{source.table}', {_DAY}, series, label, count(*)"
            f" FROM ({source.later_rows()}) recent GROUP BY 2, 3, 4"
        )
        parameters += [counted_until[source.table], last_id, at]
    if includes_recent:
        rows += fetch_rows(" UNION ALL ".join(statements), parameters)
    recent = dict.fromkeys(counted_until, 0)
    days = tuple(first.date() + timedelta(days=number) for number in range(DAYS))
    counts: dict[tuple[str, str], list[int]] = {}
    for table, day, series, label, count in rows:
        if table:
            recent[table] += count
        if series is not None and first.date() <= day <= days[-1]:
            counts.setdefault((series, label), [0] * DAYS)[(day - first.date()).days] += count
    behind = [
        counted_until[source.table]
        for source in sources
        if recent[source.table] >= source.batch_size or (not includes_recent and counted_until[source.table] < at)
    ]
    missing = [counted_from for _, _, counted_from in positions.values() if counted_from and counted_from > first]
    return DailyCounts(
        days=days,
        counts={key: tuple(numbers) for key, numbers in counts.items()},
        behind_since=min(behind, default=None),
        missing_before=max(missing, default=None),
    )


def reset() -> None:
    """Count all rows again, for example after an import. Must run inside a transaction."""
    CountProgress.objects.all().delete()
    DailyCount.objects.all().delete()


def _first_day(at: datetime) -> datetime:
    return datetime.combine(at.astimezone(UTC).date() - timedelta(days=DAYS - 1), datetime.min.time(), UTC)


def count_later_rows(source: Source, *, at: datetime) -> int:
    """Count the next rows of a source, and return their number. The first call only stores the position of the job."""
    first, until = _first_day(at), at - SETTLING_TIME
    with transaction.atomic(durable=True):
        # The statement locks the position, so that no row is counted twice.
        stored = fetch_row(
            f"INSERT INTO {namespaced('daily_counts_progress')} AS p"
            " (source, counted_until, last_id, counted_from, first_id) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (source) DO UPDATE SET source = excluded.source RETURNING counted_until, last_id",
            (source.table, until, _LAST_ID, until, _LAST_ID),
        )
        counted_until, last_id = stored or (until, _LAST_ID)
        if counted_until >= until:
            return 0
        position = max((counted_until, last_id), (first, UUID(int=0)))
        number, end = _count_batch(source.later_rows(), (*position, until), last="created_at DESC, id DESC")
        reached = end if end and number == source.batch_size else (until, _LAST_ID)
        _positions(source).update(counted_until=reached[0], last_id=reached[1])
    return number


def count_earlier_rows(source: Source, *, at: datetime) -> int:
    """Count rows of a source from before the first run of the job, and return their number."""
    first = _first_day(at)
    with transaction.atomic(durable=True):
        row = _positions(source).select_for_update().filter(counted_from__gt=first).first()
        if row is None:
            return 0
        number, end = _count_batch(
            source.earlier_rows(), (row.counted_from, row.first_id, first), last="created_at, id"
        )
        reached = end if end and number == source.batch_size else (None, None)
        _positions(source).update(counted_from=reached[0], first_id=reached[1])
    return number


def _positions(source: Source) -> QuerySet[CountProgress]:
    return CountProgress.objects.filter(source=source.table)


def _count_batch(rows: str, parameters: tuple[object, ...], *, last: str) -> tuple[int, tuple[datetime, UUID] | None]:
    """Add the `rows` to the counts; return their number, and the position of the first of them in the order `last`."""
    end = fetch_row(
        f"WITH batch AS MATERIALIZED ({rows}), stored AS ("
        f" INSERT INTO {namespaced('daily_counts')} AS c (day, series, label, count)"
        f" SELECT {_DAY}, series, label, count(*) FROM batch WHERE series IS NOT NULL GROUP BY 1, 2, 3"
        " ON CONFLICT (day, series, label) DO UPDATE SET count = c.count + excluded.count)"
        f" SELECT created_at, id, (SELECT count(*) FROM batch) FROM batch ORDER BY {last} LIMIT 1",
        parameters,
    )
    return (int(end[2]), (end[0], end[1])) if end else (0, None)
