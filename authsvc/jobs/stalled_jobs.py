"""Takes back jobs that a dead worker has left in state *doing*, which the library never does."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from psycopg_pool import AsyncConnectionPool

EVERY_SECONDS = 3.0

# One statement for choice and change, so that two sweeping workers cannot take back a job twice. A job whose worker has
# unregistered or been pruned has no worker any more.
_TAKE_BACK = """
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


async def sweep_for_ever(pool: AsyncConnectionPool, *, queue: str, stale_after: timedelta) -> None:
    """Sweep every few seconds until cancelled; a worker counts as dead `stale_after` its last heartbeat.

    What is taken back has used up one attempt. Raises psycopg errors.
    """
    while True:
        async with pool.connection() as connection:
            taken = (await connection.execute(_TAKE_BACK, {"queue": queue, "stale": stale_after})).rowcount
        if taken:
            logger.info("jobs of a dead worker taken back", extra={"jobs": taken})
        await asyncio.sleep(EVERY_SECONDS)
