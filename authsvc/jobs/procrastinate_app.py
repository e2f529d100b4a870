"""Builds the procrastinate app from the registry: retries, periodic jobs, and recovery from lost connections."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Executor
from datetime import datetime
from typing import Any

import psycopg
from django.db import close_old_connections
from django.utils import timezone
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.connector import BaseConnector, Notify
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from authsvc import conf
from authsvc.jobs import registry
from authsvc.observability import telemetry

OUTAGE_SECONDS = 600.0
"""Longest outage of the database after which the jobs under way are finished. After a longer one they run again."""
# The attempts stay: the task has not run. The pause grows with the time since a worker first took the job, since its
# version may be gone.
_PUT_BACK = """
    UPDATE procrastinate_jobs AS job
       SET status = 'todo', worker_id = NULL, abort_requested = false,
           scheduled_at = now() + greatest(interval '10 seconds', least(interval '1 hour', (
               SELECT coalesce(now() - min(at), interval '0')
                 FROM procrastinate_events WHERE job_id = job.id AND type = 'started')))
     WHERE id = %(id)s AND status = 'doing' AND worker_id = %(worker)s
"""

logger = logging.getLogger(__name__)


def build_app(*, queue: str, threads: Executor) -> App:
    """A procrastinate app with all registered tasks, which run in `threads`.

    The worker replaces its connector at each start. It is separate from procrastinate's Django app, which requests use.
    """
    app = App(connector=ReconnectingConnector())
    app.job_manager = _ReconnectingJobManager(connector=app.connector)
    for task in registry.tasks.values():
        app.task(name=task.name, queue=queue, retry=_RetryDelays(task), pass_context=True)(_runner(task, threads))
    for periodic in registry.periodic_tasks.values():
        # Locks and periodic ids of the library are not scoped to queues, so they contain the queue's name.
        lock = f"{queue}:{periodic.name}"
        register = app.task(name=periodic.name, queue=queue, lock=lock, priority=registry.PERIODIC_PRIORITY)
        app.periodic(cron=periodic.cron, periodic_id=queue)(register(_periodic_runner(periodic, threads)))
    return app


class ReconnectingConnector(PsycopgConnector):
    """Listens again after the connection is lost.

    The library supervises its listener and its heartbeat only until the first of its side tasks ends. Without periodic
    tasks one of them ends at once.
    """

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        await _retry_until_connected(super().listen_notify, on_notification, channels, seconds=None)


class _ReconnectingJobManager(JobManager):
    """Continues heartbeats and stores job results across a restart of the database.

    Otherwise a job could stay in state *doing* forever, because its worker lives, or a finished job could run again.

    During an upgrade a newer version may have stored jobs of tasks that this one lacks. They are left to its workers.
    """

    def __init__(self, connector: BaseConnector) -> None:
        super().__init__(connector)
        self._unknown_tasks: set[str] = set()

    async def update_heartbeat(self, worker_id: int) -> None:
        await _retry_until_connected(super().update_heartbeat, worker_id, seconds=None)

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        if job.task_name not in registry.tasks and job.task_name not in registry.periodic_tasks:
            if job.task_name not in self._unknown_tasks:
                self._unknown_tasks.add(job.task_name)
                logger.warning("job of an unknown task", extra={"task": job.task_name, "job": job.id})
            put_back = functools.partial(self.connector.execute_query_async, _PUT_BACK, id=job.id, worker=job.worker_id)
            await _retry_until_connected(put_back, seconds=OUTAGE_SECONDS)
            return
        await _retry_until_connected(super().finish_job, job, status, delete_job, seconds=OUTAGE_SECONDS)

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        await _retry_until_connected(super().retry_job, job, retry_at, priority, queue, lock, seconds=OUTAGE_SECONDS)


async def _retry_until_connected(call: Callable[..., Awaitable[None]], *arguments: Any, seconds: float | None) -> None:
    """Repeat a call that fails for a lost connection, for `seconds` or, with None, without limit."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        try:
            return await call(*arguments)
        except ConnectorException as error:
            was_lost = isinstance(error.__cause__, psycopg.OperationalError)
            if not was_lost or (seconds is not None and loop.time() - started > seconds):
                raise
            await asyncio.sleep(1)


class _RetryDelays(BaseRetryStrategy):
    def __init__(self, task: registry.Task[...]) -> None:
        self._task = task

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        delay = _build_run(self._task, job).retry_delay
        if delay is None or isinstance(exception, registry.PermanentFailure):
            return None
        if isinstance(exception, registry.Retry) and exception.delay is not None:
            delay = exception.delay
        # Otherwise urgent jobs whose server does not answer would keep the worker from all others.
        return RetryDecision(retry_at=timezone.now() + delay, priority=min(job.priority, 0))


def _build_run(task: registry.Task[...], job: Job) -> registry.Run:
    delay = task.retry_delays[job.attempts] if job.attempts < len(task.retry_delays) else None
    return registry.Run(attempt=job.attempts + 1, retry_delay=delay)


def _runner(task: registry.Task[...], threads: Executor) -> Callable[..., Coroutine[Any, Any, None]]:
    """The coroutine that runs a task in a thread, with settings, a span and fresh connections."""
    parameters = inspect.signature(task.function).parameters

    def run(job: Job, arguments: dict[str, Any]) -> None:
        close_old_connections()
        try:
            with conf.keep(), telemetry.job_span(task.name):
                task.function(_build_run(task, job), **arguments)
        except (registry.Retry, registry.PermanentFailure):
            raise
        except Exception:
            logger.exception("job failed", extra={"task": task.name, "job": job.id})
            raise
        finally:
            close_old_connections()

    async def run_in_thread(context: JobContext, **arguments: Any) -> None:
        # During an upgrade a newer version may have stored the job with additional arguments.
        known_arguments = {name: value for name, value in arguments.items() if name in parameters}
        await asyncio.get_running_loop().run_in_executor(threads, run, context.job, known_arguments)

    return run_in_thread


def _periodic_runner(periodic: registry.PeriodicTask, threads: Executor) -> Callable[[int], Coroutine[Any, Any, None]]:
    def run() -> None:
        close_old_connections()
        try:
            with conf.keep(), telemetry.job_span(periodic.name):
                periodic.function()
        except Exception:
            # Raising would leave one failed job in the table per run.
            logger.exception("periodic task failed", extra={"task": periodic.name})
        finally:
            close_old_connections()

    async def run_in_thread(timestamp: int) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, run)

    return run_in_thread
