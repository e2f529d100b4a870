"""Reads of lists, searches, exports and counts from replicas of the database (`AUTH_DB_READ_REPLICA_URL`).

A request permits it, and `read` runs the work on a usable replica. The state of sign-ins is never read there.
`procrastinate_workers` shows the age of a replica's data, because each worker stores its heartbeat there every two
seconds: this holds too for a replica whose connection to the primary is lost.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from authsvc.db.postgresql import REPLICA_PREFIX
from authsvc.db.postgresql.base import ResponseTimedOut
from authsvc.observability import metrics

MAX_AGE_SECONDS = 10
"""Replicas with older data are skipped."""
PAUSE_SECONDS = 30.0
"""Time for which this process skips a replica after it was unusable."""
_CHECK_SECONDS = 1.0
# ProgrammingError: a table, column or privilege is missing, perhaps until the replica has replayed a migration.
# NotSupportedError: a migration has changed the result of a prepared statement.
_UNUSABLE = (OperationalError, InterfaceError, ProgrammingError, NotSupportedError)
_AGE_SQL = "SELECT extract(epoch FROM clock_timestamp() - max(last_heartbeat))::float FROM procrastinate_workers"

Value = TypeVar("Value")

logger = logging.getLogger(__name__)

_is_permitted: ContextVar[bool] = ContextVar("reads_from_replica", default=False)


class _Outdated(Exception):
    """The data of the replica is too old; the message says how old."""


@dataclass(slots=True, kw_only=True)
class _ReplicaConnection:
    """A connection for one read at a time. It checks the age itself, because a host name can have several servers."""

    database: BaseDatabaseWrapper
    checked_until: float = 0.0
    """The age of the data need not be checked before this time of `time.monotonic`."""

    def check_age(self) -> None:
        """Raise _Outdated if the data is too old, or if its age is unknown."""
        if time.monotonic() < self.checked_until:
            return
        with self.database.cursor() as cursor:
            cursor.execute(_AGE_SQL)
            (age,) = cursor.fetchone() or (None,)
        if age is None:
            raise _Outdated("no worker has stored a heartbeat")
        if age > MAX_AGE_SECONDS:
            raise _Outdated(f"the data is {age:.0f} s old")
        self.checked_until = time.monotonic() + _CHECK_SECONDS


class _Replica:
    """A replica, its connections, and the pause after it was unusable."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self.skipped_until = 0.0
        """The end of the pause, a time of `time.monotonic`; 0 if there was none since the last successful read."""
        self.idle: deque[_ReplicaConnection] = deque()
        """Connections that no thread uses; as many as there were reads at the same time."""

    def is_usable(self) -> bool:
        return time.monotonic() >= self.skipped_until

    def read(self, work: Callable[[], Value]) -> Value:
        """Run `work` on the replica. The first read after a pause ends the pause if it succeeds."""
        is_first_after_pause = self.skipped_until > 0
        if is_first_after_pause:
            # Other threads read elsewhere until the result of this attempt is known.
            self.skipped_until = time.monotonic() + PAUSE_SECONDS
        value = self._run(work)
        if is_first_after_pause:
            self.skipped_until = 0.0
        return value

    def _run(self, work: Callable[[], Value]) -> Value:
        """Run `work` while the default connection of this thread, which all statements use, is one to the replica."""
        primary = connections[DEFAULT_DB_ALIAS]
        connection = self._take_connection()
        connections[DEFAULT_DB_ALIAS] = database = connection.database
        try:
            with transaction.atomic():
                with database.cursor() as cursor:
                    cursor.execute("SET TRANSACTION READ ONLY")
                connection.check_age()
                return work()
        except (*_UNUSABLE, _Outdated):
            database.close()
            raise
        finally:
            connections[DEFAULT_DB_ALIAS] = primary
            self.idle.append(connection)

    def skip(self, reason: str, error: Exception) -> None:
        self.skipped_until = time.monotonic() + PAUSE_SECONDS
        metrics.REPLICA_SKIPS.labels(reason).inc()
        settings = connections.settings[self._alias]
        fields = {"reason": reason, "error": str(error), "server": f"{settings['HOST']}:{settings['PORT']}"}
        logger.warning("read replica skipped", extra=fields)

    def _take_connection(self) -> _ReplicaConnection:
        try:
            idle = self.idle.pop()
        except IndexError:
            database = connections.create_connection(self._alias)
            database.alias = DEFAULT_DB_ALIAS
            database.inc_thread_sharing()
            return _ReplicaConnection(database=database)
        idle.database.close_if_unusable_or_obsolete()
        if idle.database.connection is None:
            idle.checked_until = 0.0
        return idle


replicas: dict[str, _Replica] = {}
"""By alias in DATABASES."""


@contextlib.contextmanager
def permit(is_permitted: bool = True) -> Iterator[None]:
    """Permit the reads in the block to use the replica."""
    token = _is_permitted.set(is_permitted)
    try:
        yield
    finally:
        _is_permitted.reset(token)


def is_permitted() -> bool:
    return _is_permitted.get()


def is_configured() -> bool:
    return bool(_aliases())


def read(work: Callable[[], Value]) -> Value:
    """The result of `work`, which only reads, from a replica where that is permitted and one is usable.

    `work` runs in a read-only transaction on the replica. If that fails, it runs again on the next replica, and finally
    on the primary. Raises the errors of `work`. A statement that exceeds its time limit, or gets no response within the
    time of the request, is not repeated.
    """
    # An open transaction may contain changes that the work has to see.
    if _is_permitted.get() and not connections[DEFAULT_DB_ALIAS].in_atomic_block:
        for replica in _replicas_in_random_order():
            if not replica.is_usable():
                continue
            try:
                return replica.read(work)
            except _Outdated as error:
                replica.skip("outdated", error)
            except _UNUSABLE as error:
                if isinstance(error.__cause__, errors.QueryCanceled):
                    raise
                replica.skip("unavailable", error)
                if isinstance(error.__cause__, ResponseTimedOut):
                    raise  # the time of the request is over
    return work()


def within_timeout(work: Callable[[], Value], *, milliseconds: int = 250, only_primary: bool = False) -> Value | None:
    """The result of `work`, which only reads, or None if one of its statements took longer. Runs in a transaction.

    `only_primary`: the work reads unlogged tables, which replicas do not have.
    """

    def run() -> Value:
        with transaction.atomic(), connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {milliseconds:d}")
            return work()

    try:
        return run() if only_primary else read(run)
    except OperationalError:
        return None


def _replicas_in_random_order() -> list[_Replica]:
    """All replicas, so that they share the load."""
    aliases = _aliases()
    random.shuffle(aliases)
    return [replicas.setdefault(alias, _Replica(alias)) for alias in aliases]


def _aliases() -> list[str]:
    """The aliases of the replicas in DATABASES."""
    return [alias for alias in connections.settings if alias.startswith(REPLICA_PREFIX)]
