"""Queued jobs as Django rows, which the app of their task can filter, count and delete."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db import models
from django.db.models.expressions import RawSQL

from authsvc.db import sql as db
from authsvc.jobs.registry import Task, queue

Row = TypeVar("Row", bound="QueuedJob")


class JobStatus(models.TextChoices):
    TODO = "todo", "waiting"
    DOING = "doing", "running"
    FAILED = "failed", "failed"


class QueuedJob(models.Model):
    """A waiting, running or failed job; successful ones are deleted. Subclass it for the jobs of one task."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.TextField()
    task_name = models.TextField()
    status = models.TextField(choices=JobStatus)
    scheduled_at = models.DateTimeField(null=True)
    """Time of the next attempt; NULL: as soon as a worker is free."""
    attempts = models.IntegerField()
    args = models.JSONField()

    class Meta:
        abstract = True
        managed = False
        db_table = "procrastinate_jobs"


ACCEPTED_AT = models.ExpressionWrapper(
    RawSQL("(SELECT min(at) FROM procrastinate_events WHERE job_id = procrastinate_jobs.id)", ()),
    output_field=models.DateTimeField(null=True),
)
"""Time at which a job was stored."""


MAX_COUNTED = 10_000
"""Limit of the counts of `read_queue`."""

_DELETED_AT_ONCE = 1_000

_OURS = "FROM procrastinate_jobs WHERE queue_name = %(queue)s AND"
_COUNT = f"(SELECT count(*) FROM (SELECT {_OURS} {{}} LIMIT {MAX_COUNTED}) j)"  # noqa: S608  (own text)
_DUE = "status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())"
_QUEUE = f"""
    SELECT {_COUNT.format(_DUE)}, {_COUNT.format("status = 'todo' AND scheduled_at > now()")},
        {_COUNT.format("status = 'doing'")}, {_COUNT.format("status = 'failed'")},
        EXTRACT(epoch FROM clock_timestamp() - LEAST(
            (SELECT min(scheduled_at) {_OURS} status = 'todo' AND scheduled_at <= now()),
            (SELECT min(at) FROM procrastinate_events WHERE job_id = (
                SELECT min(id) {_OURS} status = 'todo' AND scheduled_at IS NULL))))::float8
"""  # noqa: S608  (own text)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The numbers of jobs; each is at most MAX_COUNTED."""

    due: int
    scheduled: int
    """Waiting for the time of their next attempt."""
    running: int
    failed: int
    oldest_age: float | None
    """Seconds that the oldest due job has waited; None without one."""


def read_queue() -> QueueState:
    """The state of this installation's queue. Runs one statement."""
    ((due, scheduled, running, failed, age),) = db.fetch_rows(_QUEUE, {"queue": queue()})
    oldest_age = None if age is None else max(0.0, float(age))
    return QueueState(due=due, scheduled=scheduled, running=running, failed=failed, oldest_age=oldest_age)


def jobs_of_task(task: Task[...], rows: models.QuerySet[Row]) -> models.QuerySet[Row]:
    """The jobs of a task in this installation's queue."""
    return rows.filter(queue_name=queue(), task_name=task.name)


def has_due_jobs(task_name: str) -> bool:
    """True while a job of this task is due or runs. Runs one SQL statement."""
    sql = """
        SELECT EXISTS (
            SELECT FROM procrastinate_jobs
            WHERE queue_name = %s AND task_name = %s
                AND (status = 'doing' OR status = 'todo' AND coalesce(scheduled_at <= now(), true))
        )
    """
    ((has_jobs,),) = db.fetch_rows(sql, (queue(), task_name))
    return bool(has_jobs)


def count_waiting(task_name: str) -> int:
    """The number of jobs of this task that are waiting. Runs one SQL statement."""
    sql = "SELECT count(*) FROM procrastinate_jobs WHERE queue_name = %s AND task_name = %s AND status = 'todo'"
    ((number,),) = db.fetch_rows(sql, (queue(), task_name))
    return int(number)


def delete(ids: Collection[int]) -> set[int]:
    """Delete jobs that are not running; returns the deleted ids. Joins the caller's transaction."""
    sql = "DELETE FROM procrastinate_jobs WHERE id = ANY(%s) AND status <> 'doing' RETURNING id"
    return {deleted for (deleted,) in db.fetch_rows(sql, (list(ids),))}


def delete_failed(*, before: datetime) -> int:
    """Delete this installation's jobs that failed before this time; their number. One statement per batch.

    A job that an operator is retrying stays.
    """
    sql = f"""
        DELETE FROM procrastinate_jobs WHERE id = ANY(ARRAY(
            SELECT id FROM procrastinate_jobs AS job
            WHERE queue_name = %s AND status = 'failed'
                AND (SELECT max(at) FROM procrastinate_events WHERE job_id = job.id) < %s
            LIMIT {_DELETED_AT_ONCE:d} FOR UPDATE SKIP LOCKED))
        RETURNING id
    """  # noqa: S608  (own number)
    total = 0
    while True:
        number = len(db.fetch_rows(sql, (queue(), before)))
        total += number
        if number < _DELETED_AT_ONCE:
            return total
