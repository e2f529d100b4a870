"""Health of the workers: the age of the latest heartbeat, and how long the next job has been due."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.backends.utils import CursorWrapper

from authsvc.jobs.registry import queue

MAX_HEARTBEAT_AGE = 30.0
"""Seconds after which workers without a heartbeat count as dead. Workers send one every few seconds."""
MAX_JOB_DELAY = 60.0
"""Seconds that a job may be due while no worker sends a heartbeat."""

# The heartbeat may come from a worker of another installation in this database, so the due job is checked too.
_HEALTH = """
    SELECT EXTRACT(epoch FROM now() - (SELECT max(last_heartbeat) FROM procrastinate_workers))::float8,
           EXTRACT(epoch FROM now() - (
                SELECT COALESCE(job.scheduled_at,
                                (SELECT min(at) FROM procrastinate_events WHERE job_id = job.id))
                  FROM procrastinate_jobs AS job
                 WHERE job.status = 'todo' AND job.queue_name = %s
                   AND (job.scheduled_at IS NULL OR job.scheduled_at <= now())
                 ORDER BY job.priority DESC, job.id LIMIT 1))::float8
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    heartbeat_age: float | None
    """Seconds since the latest heartbeat of any worker; None if there is no worker."""
    job_delay: float | None
    """Seconds that the next job has been due; None if no job is due."""

    @property
    def has_heartbeat(self) -> bool:
        return self.heartbeat_age is not None and self.heartbeat_age <= MAX_HEARTBEAT_AGE

    @property
    def is_healthy(self) -> bool:
        """A long queue is healthy as long as a worker processes it."""
        return self.has_heartbeat or (self.job_delay or 0) <= MAX_JOB_DELAY


def read_worker_health(cursor: CursorWrapper) -> WorkerHealth:
    """The health of the workers. One statement. Raises django.db errors."""
    cursor.execute(_HEALTH, [queue()])
    row = cursor.fetchone()
    heartbeat_age, job_delay = row if row else (None, None)
    return WorkerHealth(heartbeat_age=heartbeat_age, job_delay=job_delay)
