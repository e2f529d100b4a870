"""What apps declare, tasks to be deferred and functions to be run regularly, and how a job gets into the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Concatenate, Generic, ParamSpec

from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager

from authsvc import clock, conf
from authsvc.db.sql import prefix

P = ParamSpec("P")

_manager = JobManager(DjangoConnector())


class TryAgain(Exception):
    """Raised by a task that has reported its failure itself: to be run again after `pause`, or else after the next of
    its own. After the last of its own pauses there is no further run either way."""

    def __init__(self, *, pause: timedelta | None = None) -> None:
        super().__init__()
        self.pause = pause


class GiveUp(Exception):
    """Raised by a task that has reported its failure itself: no further run; the job is kept, to be retried by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a task is told about the run it is in."""

    attempt: int
    """1 for the first run."""
    pause: timedelta | None
    """How long until the next run should this one fail; None when it is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[P]):
    """Work to be deferred. `name` is stored with every job and therefore outlives a move of the function."""

    name: str
    function: Callable[Concatenate[Run, P], None]
    pauses: tuple[timedelta, ...]

    def defer(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Store a job in the caller's transaction; only keyword arguments with JSON values can be stored.

        One statement; the commit wakes a worker. Raises procrastinate's ConnectorException when it cannot be stored.
        """
        if args:
            raise TypeError(f"{self.name} is deferred with keyword arguments only")
        arguments: dict[str, Any] = dict(kwargs)
        _manager.defer_job(
            Job(queue=queue(), task_name=self.name, task_kwargs=arguments, lock=None, queueing_lock=None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A function that one worker of the installation runs whenever `cron` says so."""

    name: str
    cron: str
    function: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A function that every worker runs at its start and again after each `pause`, in a thread of its own.

    For what a process keeps in memory, and what takes long. Of the database it may use a connection of its own alone,
    and closes that before it returns.
    """

    name: str
    pause: Callable[[], timedelta]
    function: Callable[[], None]


tasks: dict[str, Task[...]] = {}
periodics: dict[str, Periodic] = {}
rounds: dict[str, Round] = {}


def task(*, name: str, pauses: Sequence[timedelta] = ()) -> Callable[[Callable[Concatenate[Run, P], None]], Task[P]]:
    """Declare a function as a task that is run again after each of `pauses` while it raises, then kept as failed.

    The function must bear being run twice with the same arguments: a process may die between the work and its record.
    """

    def declare(function: Callable[Concatenate[Run, P], None]) -> Task[P]:
        declared = Task(name=name, function=function, pauses=tuple(pauses))
        _refuse_second(name)
        tasks[name] = declared
        return declared

    return declare


def periodic(*, name: str, cron: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Declare a function that runs by the clock: five cron fields, or six with the seconds last; times are UTC.

    A run that raises is logged and not repeated before its next time.
    """

    def declare(function: Callable[[], None]) -> Callable[[], None]:
        _refuse_second(name)
        periodics[name] = Periodic(name=name, cron=cron, function=function)
        return function

    return declare


def in_every_worker(*, name: str, pause: Callable[[], timedelta]) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Declare a function as a round of every worker; `pause` is asked anew each time.

    A run that raises is logged, and the round goes on.
    """

    def declare(function: Callable[[], None]) -> Callable[[], None]:
        _refuse_second(name)
        rounds[name] = Round(name=name, pause=pause, function=function)
        return function

    return declare


def retry(*, job_id: int) -> None:
    """Put a failed job back into the queue, to be run at once.

    Raises procrastinate's ConnectorException when there is no such job or it has not failed.
    """
    _manager.retry_job_by_id(job_id, retry_at=clock.now())


def queue() -> str:
    """The queue of this installation: several may share a database and must not take each other's jobs."""
    return prefix(conf.current().database.namespace) or "default"


def _refuse_second(name: str) -> None:
    if name in tasks or name in periodics or name in rounds:
        raise ValueError(f"two pieces of work are named {name}")
