"""Whether somebody works on the queue: the heartbeat of workers, and how long the job next in line has been waiting."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.backends.utils import CursorWrapper

from authsvc.jobs.registry import queue

LONGEST_SILENCE = 30.0
"""Seconds without any heartbeat, of which there is one every few seconds, before workers count as gone."""
LONGEST_WAIT = 60.0
"""Seconds that a job may wait while no worker shows a sign of life."""

# Workers of other installations in this database show no sign of theirs, hence the second look.
_SIGNS = """
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
class VitalSigns:
    silence: float | None
    """Seconds since the last heartbeat of any worker; None when there is no worker."""
    wait: float | None
    """Seconds that the job next in line has been due; None when none is."""

    @property
    def is_alive(self) -> bool:
        """A long queue is alive as long as somebody works on it."""
        someone_lives = self.silence is not None and self.silence <= LONGEST_SILENCE
        return someone_lives or (self.wait or 0) <= LONGEST_WAIT


def vital_signs(cursor: CursorWrapper) -> VitalSigns:
    """One statement. Raises django.db errors."""
    cursor.execute(_SIGNS, [queue()])
    row = cursor.fetchone()
    silence, wait = row if row else (None, None)
    return VitalSigns(silence=silence, wait=wait)
