"""Jobs as they are stored, waiting, in hand or failed: to be read and removed by who declared their task."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from authsvc.core.db import rows
from authsvc.core.jobs.registry import queue

_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    id: int
    status: str
    """`todo`, `doing` or `failed`."""
    attempts: int
    """Begun so far."""
    scheduled_at: datetime | None
    """When the next attempt is due; None: as soon as a worker is free."""
    arguments: dict[str, Any] = field(repr=False)


def stored(task: str) -> Iterator[Stored]:
    """Every job of this installation for the task of that name, oldest first."""
    last = 0
    while found := rows(
        "SELECT id, status::text, attempts, scheduled_at, args FROM procrastinate_jobs"
        " WHERE queue_name = %s AND task_name = %s AND id > %s ORDER BY id LIMIT %s",
        (queue(), task, last, _AT_ONCE),
    ):
        for id_, status, attempts, scheduled_at, arguments in found:
            yield Stored(id=id_, status=status, attempts=attempts, scheduled_at=scheduled_at, arguments=arguments)
        last = found[-1][0]


def remove(ids: Collection[int]) -> set[int]:
    """Remove jobs that no worker has in hand; the ids of those removed. Joins the caller's transaction."""
    sql = "DELETE FROM procrastinate_jobs WHERE id = ANY(%s) AND status <> 'doing' RETURNING id"
    return {removed for (removed,) in rows(sql, (list(ids),))}
