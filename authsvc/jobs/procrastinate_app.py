"""The declared work as a procrastinate app: retries, periodic jobs, and what must survive a restart of the database."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Executor
from datetime import datetime
from typing import Any

import psycopg
from django.db import close_old_connections
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from authsvc import clock, conf
from authsvc.jobs import registry
from authsvc.observability import telemetry

PATIENCE_SECONDS = 30.0
"""How long the end of a job may wait for a database that is being restarted."""
PERIODIC_PRIORITY = -1
"""Somebody may be waiting for a deferred job, nobody for a periodic one."""

logger = logging.getLogger(__name__)


def build_app(*, queue: str, threads: Executor) -> App:
    """A procrastinate app of all work declared so far, to be done in `threads`.

    Its connector is put in for each life of a worker. Not the library's Django app, which belongs to the requests.
    """
    app = App(connector=LastingConnector())
    app.job_manager = _LastingJobManager(connector=app.connector)
    for task in registry.tasks.values():
        app.task(name=task.name, queue=queue, retry=_Pauses(task), pass_context=True)(_runner(task, threads))
    for work in registry.periodics.values():
        # Neither locks nor periodic ids of the library know of queues, so the queue is made part of them.
        lock = f"{queue}:{work.name}"
        declare = app.task(name=work.name, queue=queue, lock=lock, priority=PERIODIC_PRIORITY)
        app.periodic(cron=work.cron, periodic_id=queue)(declare(_clockwork(work, threads)))
    return app


class LastingConnector(PsycopgConnector):
    """Listens again when the connection is lost.

    The library watches its listener and its heartbeat only until the first of its side tasks ends, and without periodic
    work one of them ends at once.
    """

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        await _insist(super().listen_notify, on_notification, channels, patience=None)


class _LastingJobManager(JobManager):
    """Keeps its heart beating, and notes the end of a job, across a restart of the database.

    A job that stays *doing* while its worker lives would never be taken back, and one that is done would be done again.
    """

    async def update_heartbeat(self, worker_id: int) -> None:
        await _insist(super().update_heartbeat, worker_id, patience=None)

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        await _insist(super().finish_job, job, status, delete_job, patience=PATIENCE_SECONDS)

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        await _insist(super().retry_job, job, retry_at, priority, queue, lock, patience=PATIENCE_SECONDS)


async def _insist(call: Callable[..., Awaitable[None]], *arguments: Any, patience: float | None) -> None:
    """Call until the connection holds, for `patience` seconds or, with None, for ever."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        try:
            return await call(*arguments)
        except ConnectorException as error:
            was_lost = isinstance(error.__cause__, psycopg.OperationalError)
            if not was_lost or (patience is not None and loop.time() - started > patience):
                raise
            await asyncio.sleep(1)


class _Pauses(BaseRetryStrategy):
    def __init__(self, task: registry.Task[...]) -> None:
        self._task = task

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        pause = _run_of(self._task, job).pause
        if pause is None or isinstance(exception, registry.GiveUp):
            return None
        if isinstance(exception, registry.TryAgain) and exception.pause is not None:
            pause = exception.pause
        return RetryDecision(retry_at=clock.now() + pause)


def _run_of(task: registry.Task[...], job: Job) -> registry.Run:
    pause = task.pauses[job.attempts] if job.attempts < len(task.pauses) else None
    return registry.Run(attempt=job.attempts + 1, pause=pause)


def _runner(task: registry.Task[...], threads: Executor) -> Callable[..., Coroutine[Any, Any, None]]:
    known = inspect.signature(task.function).parameters

    def run(job: Job, arguments: dict[str, Any]) -> None:
        close_old_connections()
        try:
            with conf.keep(), telemetry.job_span(task.name):
                task.function(_run_of(task, job), **arguments)
        except (registry.TryAgain, registry.GiveUp):
            raise
        except Exception:
            logger.exception("job failed", extra={"task": task.name, "job": job.id})
            raise
        finally:
            close_old_connections()

    async def run_in_thread(context: JobContext, **arguments: Any) -> None:
        # During an upgrade a newer version may have stored the job, with arguments that are new.
        taken = {name: value for name, value in arguments.items() if name in known}
        await asyncio.get_running_loop().run_in_executor(threads, run, context.job, taken)

    return run_in_thread


def _clockwork(work: registry.Periodic, threads: Executor) -> Callable[[int], Coroutine[Any, Any, None]]:
    def run() -> None:
        close_old_connections()
        try:
            with conf.keep(), telemetry.job_span(work.name):
                work.function()
        except Exception:
            # Raising would keep a failed job in the table for every time the clock strikes.
            logger.exception("periodic work failed", extra={"task": work.name})
        finally:
            close_old_connections()

    async def run_in_thread(timestamp: int) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, run)

    return run_in_thread
