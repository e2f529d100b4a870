"""The registry of tasks, periodic tasks, loops and threads of workers, and the deferring of jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec

from django.db import connection
from django.utils import timezone
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.manager import JobManager

from authsvc import conf
from authsvc.db.sql import namespace_prefix

P = ParamSpec("P")

URGENT_PRIORITY = 1
"""Priority of messages whose codes expire within a minute: their first run waits for the running job only."""
PERIODIC_PRIORITY = -1
"""Deferred jobs run first, because users may be waiting for them."""
NOTICE_PRIORITY = -5
"""Priority of notices to other servers, which may answer slowly; users wait for none of them."""
BULK_PRIORITY = -10
"""Priority of the messages of a bulk action, which follow all other jobs."""
BULK_SOURCE_PRIORITY = -20
"""Priority of the jobs of a bulk action that create its messages: what they have created is delivered first."""

_manager = JobManager(DjangoConnector())


class Retry(Exception):
    """Raised by a task that has already logged its failure, to be run again.

    The next run follows after `delay`, or else after the task's next retry delay. After the last of the task's retry
    delays there is no further run in either case.
    """

    def __init__(self, *, delay: timedelta | None = None) -> None:
        super().__init__()
        self.delay = delay


class PermanentFailure(Exception):
    """Raised by a task that has already logged its failure. The job is kept and can be retried in the console."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The current run of a task."""

    attempt: int
    """1 for the first run."""
    retry_delay: timedelta | None
    """Delay until the next run if this one fails; None for the last run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[P]):
    """A function that can be deferred. `name` is stored with every job, so it must survive a move of the function."""

    name: str
    function: Callable[Concatenate[Run, P], None]
    retry_delays: tuple[timedelta, ...]

    def defer(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Store a job in the caller's transaction. Takes only keyword arguments with JSON values.

        One statement; the commit wakes a worker. Raises django.db errors.
        """
        if args:
            raise TypeError(f"{self.name} is deferred with keyword arguments only")
        self.schedule(dict(kwargs))

    def schedule(self, arguments: Mapping[str, Any], *, priority: int = 0, run_at: datetime | None = None) -> None:
        """As `defer`, with the `arguments` of the task. Jobs of a higher priority run first, none before `run_at`."""
        job = Job(
            queue=queue(),
            task_name=self.name,
            task_kwargs=dict(arguments),
            lock=None,
            queueing_lock=None,
            priority=priority,
            scheduled_at=run_at,
        )
        try:
            _manager.defer_job(job)
        except ConnectorException as error:
            # A request answers 503 for a lost connection, whichever statement notices it.
            with connection.wrap_database_errors:
                raise error.__cause__ or error from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTask:
    """A function that one worker of the installation runs at the times of `cron`."""

    name: str
    cron: str
    function: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoop:
    """A function that every worker runs at its start and again after each interval, in a separate thread.

    For in-process caches and for long operations. It must use its own database connection and close it before it
    returns.
    """

    name: str
    interval: Callable[[], timedelta]
    function: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerThread:
    """A function that every worker runs in a separate thread until its argument is set, and again after a failure.

    It must use its own database connection and close it before it returns.
    """

    name: str
    function: Callable[[threading.Event], None]


tasks: dict[str, Task[...]] = {}
periodic_tasks: dict[str, PeriodicTask] = {}
worker_loops: dict[str, WorkerLoop] = {}
worker_threads: dict[str, WorkerThread] = {}


def task(
    *, name: str, retry_delays: Sequence[timedelta] = ()
) -> Callable[[Callable[Concatenate[Run, P], None]], Task[P]]:
    """Register a function as a task. A run that raises is repeated after each of `retry_delays`, then kept as failed.

    The function must be idempotent: a process may die after the work and before the job is marked as finished.
    """

    def register(function: Callable[Concatenate[Run, P], None]) -> Task[P]:
        registered = Task(name=name, function=function, retry_delays=tuple(retry_delays))
        _check_unused(name)
        tasks[name] = registered
        return registered

    return register


def periodic(*, name: str, cron: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a periodic task. `cron`: five cron fields, or six with the seconds last, in UTC.

    A run that raises is logged and not repeated before its next time.
    """

    def register(function: Callable[[], None]) -> Callable[[], None]:
        _check_unused(name)
        periodic_tasks[name] = PeriodicTask(name=name, cron=cron, function=function)
        return function

    return register


def worker_loop(*, name: str, interval: Callable[[], timedelta]) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function as a loop of every worker. `interval` is called before each wait.

    A run that raises is logged, and the loop continues.
    """

    def register(function: Callable[[], None]) -> Callable[[], None]:
        _check_unused(name)
        worker_loops[name] = WorkerLoop(name=name, interval=interval, function=function)
        return function

    return register


def worker_thread(*, name: str) -> Callable[[Callable[[threading.Event], None]], Callable[[threading.Event], None]]:
    """Register a function as a thread of every worker. It should return soon after its argument is set."""

    def register(function: Callable[[threading.Event], None]) -> Callable[[threading.Event], None]:
        _check_unused(name)
        worker_threads[name] = WorkerThread(name=name, function=function)
        return function

    return register


def retry_failed_job(*, job_id: int) -> None:
    """Return a failed job to the queue, to run at once.

    Raises procrastinate's ConnectorException if the job does not exist or has not failed.
    """
    _manager.retry_job_by_id(job_id, retry_at=timezone.now())


def queue() -> str:
    """The queue name of this installation. Installations that share a database use different queues."""
    return namespace_prefix(conf.current().database.namespace) or "default"


def _check_unused(name: str) -> None:
    if any(name in registered for registered in (tasks, periodic_tasks, worker_loops, worker_threads)):
        raise ValueError(f"two tasks are named {name}")
