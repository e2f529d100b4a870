"""The job worker: a thread with a separate event loop and connections, which restarts after every failure.

A serving process starts one when the WSGI application is loaded, and stops it when the process exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import procrastinate.worker
from django.db import connections
from django.utils import timezone
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from authsvc import conf
from authsvc.db.postgresql import response_timeout
from authsvc.db.postgresql.base import SET_UP_SESSION
from authsvc.jobs import procrastinate_app, registry

POLL_SECONDS = 2.0
"""Notifications announce new jobs. Retries, and all jobs behind a transaction pooler, are found by polling."""
HEARTBEAT_SECONDS = 2.0
STALE_AFTER = timedelta(seconds=8)
CONNECT_SECONDS = 5.0
RESTART_SECONDS = 1.0
RECLAIM_SECONDS = 3.0
MAX_ATTEMPTS = 20
"""Attempts after which a job whose worker has died is kept as failed, because it may be the cause.

More for a task with more retries. Workers that die of another cause hardly interrupt one job as often.
"""
MAX_CLOCK_DIFFERENCE = timedelta(minutes=1)
"""Between this host and the database. A worker with a wrong clock would delete rows that are valid."""
CLOCK_SECONDS = 30.0
"""Pause until a clock that differs is compared again."""
STOP_SECONDS = 30.0
"""Timeout of the process's exit for the running job."""
RESPONSE_TIMEOUT_SECONDS = 30.0
"""Timeout of a statement, because a job that waited without limit would hold all further jobs of its worker.

Jobs change rows in batches, so hardly one of their statements takes as long.
"""

# One statement selects and updates, so that two workers cannot reclaim a job twice. A job of an unregistered or pruned
# worker has no worker row.
_RECLAIM = """
    UPDATE procrastinate_jobs
       SET status = CASE WHEN attempts + 1 < coalesce((%(max_attempts)s::jsonb -> task_name)::integer, %(default)s)
               THEN 'todo' ELSE 'failed' END::procrastinate_job_status,
           attempts = attempts + 1, scheduled_at = now(), worker_id = NULL, abort_requested = false
     WHERE id IN (
           SELECT job.id
             FROM procrastinate_jobs AS job
             LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
            WHERE job.status = 'doing' AND job.queue_name = %(queue)s
              AND (worker.id IS NULL OR worker.last_heartbeat < %(stale_since)s)
              FOR UPDATE OF job SKIP LOCKED)
 RETURNING id, task_name, attempts, status
"""

_running: list[Worker] = []
logger = logging.getLogger(__name__)


class Worker:
    """Runs one job at a time until stopped. Can be started once.

    Each statement of a job must return within `response_timeout_seconds`. No job begins while the clocks of this host
    and of the database differ by more than `max_clock_difference`.
    """

    def __init__(
        self,
        *,
        response_timeout_seconds: float = RESPONSE_TIMEOUT_SECONDS,
        max_clock_difference: timedelta = MAX_CLOCK_DIFFERENCE,
    ) -> None:
        self._queue = registry.queue()
        self._max_clock_difference = max_clock_difference
        # One thread, so that jobs use one Django connection, which the same thread closes.
        self._executor = ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix="job",
            initializer=response_timeout.limit_this_thread,
            initargs=(response_timeout_seconds,),
        )
        self._app = procrastinate_app.build_app(queue=self._queue, threads=self._executor)
        self._stopping = threading.Event()
        self._request_stop: Callable[[], object] | None = None
        self._threads = [threading.Thread(target=self._run_until_stopped, name="jobs", daemon=True)]
        self._threads += [
            threading.Thread(target=_run_thread, args=(thread, self._stopping), name=thread.name, daemon=True)
            for thread in registry.worker_threads.values()
        ]

    def start(self) -> None:
        # The library logs every job with its arguments; tasks log their failures themselves.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        logging.getLogger("procrastinate.worker").addFilter(_is_not_about_job)
        for thread in self._threads:
            thread.start()
        for loop in registry.worker_loops.values():
            threading.Thread(target=_run_loop, args=(loop, self._stopping), name=loop.name, daemon=True).start()

    def stop(self, *, seconds: float) -> bool:
        """Start no further job and wait for the running one; False if it has not ended within `seconds`.

        Another worker reclaims a job that the end of the process interrupts.
        """
        self._stopping.set()
        if self._request_stop is not None:
            with contextlib.suppress(
                RuntimeError
            ):  # the loop has just ended, and the next one checks `_stopping` first
                self._request_stop()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._run_once())
            except _ClocksDiffer as error:
                logger.error("no jobs are run", extra={"error": str(error)})
                self._stopping.wait(CLOCK_SECONDS)
            except Exception as error:  # noqa: BLE001  (committed messages must be delivered)
                logger.warning("job worker restarts", extra={"error": repr(error.__cause__ or error)})
            self._stopping.wait(RESTART_SECONDS)
        self._executor.submit(connections.close_all)
        self._executor.shutdown()

    async def _run_once(self) -> None:
        """Run jobs until stopped. Raises if the worker ends earlier."""
        pool = AsyncConnectionPool(
            kwargs=connector_params(),
            min_size=1,
            max_size=2,
            timeout=CONNECT_SECONDS,
            reconnect_timeout=CONNECT_SECONDS,
            configure=_configure,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )
        connector = procrastinate_app.ReconnectingConnector()
        with self._app.replace_connector(connector):
            async with pool:
                await connector.open_async(pool)
                await self._run_jobs(pool)

    async def _run_jobs(self, pool: AsyncConnectionPool) -> None:
        """Run jobs until stopped, with heartbeats and supervision beside them. Raises if the supervision ends."""
        worker = procrastinate.worker.Worker(
            app=self._app,
            name=None,  # its logger is then the one with the filter
            queues=[self._queue],
            install_signal_handlers=False,
            delete_jobs="successful",
            fetch_job_polling_interval=POLL_SECONDS,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            # The library forgets such workers. Jobs of a forgotten worker would be reclaimed although it lives.
            stalled_worker_timeout=procrastinate_app.OUTAGE_SECONDS,
            # A pooler in transaction mode accepts LISTEN but delivers no notification.
            listen_notify=conf.current().database.has_sessions,
        )
        async with pool.connection() as connection:
            await _compare_clocks(connection, limit=self._max_clock_difference)
        loop = asyncio.get_running_loop()
        # The start of `worker.run` withdraws earlier requests to stop, so nothing is awaited in between.
        self._request_stop = lambda: loop.call_soon_threadsafe(worker.stop)
        if self._stopping.is_set():
            return
        supervising = asyncio.create_task(self._supervise(pool))
        # The task ends if clocks differ, or if it loses its connection; the worker has probably lost its own too.
        supervising.add_done_callback(lambda _: worker.stop())  # type: ignore[no-untyped-call]  # by the library
        pending = {supervising, asyncio.create_task(self._send_heartbeats(worker))}
        try:
            await worker.run()  # type: ignore[no-untyped-call]  # by the library
        finally:
            while pending:
                # Repeated, because before Python 3.12 a cancellation is lost if it meets a result.
                for task in pending:
                    task.cancel()
                _, pending = await asyncio.wait(pending, timeout=1)
            lost = None if supervising.cancelled() else supervising.exception()
        if isinstance(lost, _ClocksDiffer):
            raise lost
        if not self._stopping.is_set():
            raise ConnectionError("the worker ended unexpectedly") from lost

    async def _send_heartbeats(self, worker: procrastinate.worker.Worker) -> None:
        """Send heartbeats until cancelled; those of the library end before the running job of a worker that stops."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if worker.worker_id is not None:
                # Such as of a database that is read-only for a while.
                with contextlib.suppress(ConnectorException):
                    await self._app.job_manager.update_heartbeat(worker.worker_id)

    async def _supervise(self, pool: AsyncConnectionPool) -> None:
        """Every few seconds until cancelled, compare clocks and reclaim jobs. Raises _ClocksDiffer, psycopg errors.

        The library does not return the running jobs of dead workers to the queue. A worker is dead `STALE_AFTER` its
        last heartbeat, if the database has accepted heartbeats since. A reclaimed job has used up one attempt; after
        the last one (`MAX_ATTEMPTS`) it is kept as failed.
        """
        # Times of the database, whose clock goes on while this process or its machine is suspended.
        answered_at = steady_since = datetime.min.replace(tzinfo=UTC)
        while True:
            async with pool.connection() as connection:
                last_answered_at = answered_at
                answered_at = await _compare_clocks(connection, limit=self._max_clock_difference)
                if not timedelta() <= answered_at - last_answered_at <= timedelta(seconds=RECLAIM_SECONDS + 1):
                    # The database was away, or this process was frozen: live workers need time for a heartbeat.
                    steady_since = answered_at
                if answered_at - steady_since > STALE_AFTER:
                    await self._reclaim(connection, stale_since=answered_at - STALE_AFTER)
            await asyncio.sleep(RECLAIM_SECONDS)

    async def _reclaim(self, connection: AsyncConnection[Any], *, stale_since: datetime) -> None:
        max_attempts = {task.name: max(MAX_ATTEMPTS, len(task.retry_delays) + 1) for task in registry.tasks.values()}
        parameters = {
            "queue": self._queue,
            "stale_since": stale_since,
            "max_attempts": json.dumps(max_attempts),
            "default": MAX_ATTEMPTS,
        }
        rows = await (await connection.execute(_RECLAIM, parameters)).fetchall()
        failed = [row for row in rows if row[-1] == "failed"]
        for job_id, task, attempts, _ in failed:
            logger.error("job failed: its worker died", extra={"task": task, "job": job_id, "attempts": attempts})
        if len(rows) > len(failed):
            logger.info("jobs of a dead worker reclaimed", extra={"jobs": len(rows) - len(failed)})


class _ClocksDiffer(Exception):
    """The clocks of this host and of the database differ."""


async def _compare_clocks(connection: AsyncConnection[Any], *, limit: timedelta) -> datetime:
    """Compare the clocks; return the time of the database. Raises _ClocksDiffer, psycopg errors."""
    before = timezone.now()
    cursor = await connection.execute("SELECT clock_timestamp()")
    ((of_database,),) = await cursor.fetchall()
    # Both ends, because the response may have been under way for long: this process may have been frozen.
    if not before - limit <= of_database <= timezone.now() + limit:
        raise _ClocksDiffer(
            f"the clock of this host says {before:%F %T}, that of the database {of_database.astimezone(UTC):%F %T} UTC"
        )
    return cast("datetime", of_database)


async def _configure(connection: AsyncConnection[Any]) -> None:
    # Each statement is a transaction, so that a frozen process holds no lock between a statement and its commit.
    await connection.set_autocommit(True)
    if conf.current().database.has_sessions:
        await connection.execute(SET_UP_SESSION)


def _is_not_about_job(record: logging.LogRecord) -> bool:
    return not str(getattr(record, "action", "")).startswith(("job_", "task_not_found"))


def _run_loop(loop: registry.WorkerLoop, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            loop.function()
        except Exception:
            logger.exception("worker loop failed", extra={"task": loop.name})
        stopping.wait(loop.interval().total_seconds())


def _run_thread(thread: registry.WorkerThread, stopping: threading.Event) -> None:
    response_timeout.limit_this_thread(RESPONSE_TIMEOUT_SECONDS)
    while not stopping.is_set():
        try:
            thread.function(stopping)
        except Exception:
            logger.exception("worker thread failed", extra={"task": thread.name})
            stopping.wait(RESTART_SECONDS)


def start_in_process() -> None:
    """Start this process's worker, unless it is running or the settings demand separate worker processes."""
    if conf.current().mailer.worker_enabled and not _running:
        worker = Worker()
        worker.start()
        _running.append(worker)


def stop_in_process() -> None:
    """Stop this process's worker after its running job. Also called when the process exits."""
    while _running:
        if not _running.pop().stop(seconds=STOP_SECONDS):
            logger.warning("running job not finished in time; another worker will run it again")


def _start_in_child() -> None:
    # Threads do not survive a fork, for example of a server that preloads the application.
    if _running:
        _running.clear()
        start_in_process()


os.register_at_fork(after_in_child=_start_in_child)
# `atexit` functions run after the thread pools of the jobs are closed, and do not run at all in processes made by
# multiprocessing. concurrent.futures uses this hook for the same reason.
threading._register_atexit(stop_in_process)  # type: ignore[attr-defined]  # private
