"""Jobs of the queue as rows: to be filtered, counted, read and removed by the app that declared their task."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from django.db import models
from django.db.models.expressions import RawSQL

from authsvc.db import sql as db
from authsvc.jobs.registry import Task, queue

Row = TypeVar("Row", bound="WaitingJob")


class Status(models.TextChoices):
    TODO = "todo", "waiting"
    DOING = "doing", "in hand"
    FAILED = "failed", "failed"


class WaitingJob(models.Model):
    """A job that is not done: those that are have been removed. Subclasses are for the jobs of one task."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.TextField()
    task_name = models.TextField()
    status = models.TextField(choices=Status)
    scheduled_at = models.DateTimeField(null=True)
    """When the next attempt is due; NULL: as soon as a worker is free."""
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
"""When a job was stored."""


def of(task: Task[...], rows: models.QuerySet[Row]) -> models.QuerySet[Row]:
    """The jobs of this installation for a task."""
    return rows.filter(queue_name=queue(), task_name=task.name)


def remove(ids: Collection[int]) -> set[int]:
    """Remove jobs that no worker has in hand; the ids of those removed. Joins the caller's transaction."""
    sql = "DELETE FROM procrastinate_jobs WHERE id = ANY(%s) AND status <> 'doing' RETURNING id"
    return {removed for (removed,) in db.rows(sql, (list(ids),))}
