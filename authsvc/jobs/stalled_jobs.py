"""Returns jobs that a dead worker left in state *doing* to the queue, which procrastinate does not do itself."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from psycopg_pool import AsyncConnectionPool

INTERVAL_SECONDS = 3.0

# One statement selects and updates, so that two workers cannot reclaim a job twice. A job of an unregistered or pruned
# worker has no worker row.
_RECLAIM = """
    UPDATE procrastinate_jobs
       SET status = 'todo', attempts = attempts + 1, scheduled_at = now(), worker_id = NULL, abort_requested = false
     WHERE id IN (
           SELECT job.id
             FROM procrastinate_jobs AS job
             LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
            WHERE job.status = 'doing' AND job.queue_name = %(queue)s
              AND (worker.id IS NULL OR worker.last_heartbeat < now() - %(stale)s)
              FOR UPDATE OF job SKIP LOCKED)
"""

logger = logging.getLogger(__name__)


async def reclaim_stalled_jobs(pool: AsyncConnectionPool, *, queue: str, stale_after: timedelta) -> None:
    """Reclaim jobs every few seconds until cancelled. A worker is dead `stale_after` its last heartbeat.

    A reclaimed job has used up one attempt. Raises psycopg errors.
    """
    while True:
        async with pool.connection() as connection:
            reclaimed = (await connection.execute(_RECLAIM, {"queue": queue, "stale": stale_after})).rowcount
        if reclaimed:
            logger.info("jobs of a dead worker reclaimed", extra={"jobs": reclaimed})
        await asyncio.sleep(INTERVAL_SECONDS)
