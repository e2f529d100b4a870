"""Reads of lists, searches, exports and counts from a replica of the database (`AUTH_DB_READ_REPLICA_URL`).

A request permits it, and `read` runs the work on the replica while one is usable. The state of sign-ins is never read
there. `procrastinate_workers` shows the age of the replica's data, because each worker stores its heartbeat there every
two seconds: this holds too for a replica whose connection to the primary is lost.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from authsvc.db.postgresql import REPLICA_ALIAS
from authsvc.observability import metrics

MAX_AGE_SECONDS = 10
"""Replicas with older data are skipped."""
PAUSE_SECONDS = 30.0
"""Time for which this process skips the replica after it was unusable."""
_CHECK_SECONDS = 1.0
_AGE = "SELECT extract(epoch FROM clock_timestamp() - max(last_heartbeat))::float FROM procrastinate_workers"

Value = TypeVar("Value")

logger = logging.getLogger(__name__)

_idle: deque[BaseDatabaseWrapper] = deque()
"""Connections that no thread uses; as many as there were reads at the same time."""
_is_permitted: ContextVar[bool] = ContextVar("reads_from_replica", default=False)


class _State:
    """What this process knows about the replica; times of `time.monotonic`."""

    skipped_until = 0.0
    checked_until = 0.0


class _Outdated(Exception):
    """The data of the replica is too old; the message says how old."""


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


def read(work: Callable[[], Value]) -> Value:
    """The result of `work`, which only reads, from the replica where that is permitted and it is usable.

    Its statements are a transaction on the replica. If the replica fails, `work` runs again on the primary. Raises as
    `work`; an exceeded time limit of a statement is not repeated.
    """
    is_usable = REPLICA_ALIAS in connections.settings and time.monotonic() >= _State.skipped_until
    # An open transaction may contain changes that the work has to see.
    if is_usable and _is_permitted.get() and not connections[DEFAULT_DB_ALIAS].in_atomic_block:
        try:
            return _read(work)
        except _Outdated as error:
            _skip("outdated", error)
        except (OperationalError, InterfaceError) as error:
            if isinstance(error.__cause__, errors.QueryCanceled):
                raise
            _skip("unavailable", error)
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


def _read(work: Callable[[], Value]) -> Value:
    """Run `work` in a thread whose default connection, which all statements use, is one to the replica meanwhile."""
    primary = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = replica = _take_connection()
    try:
        with transaction.atomic():
            with replica.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
            _check_age(replica)
            return work()
    except (OperationalError, InterfaceError, _Outdated):
        # The next connection may reach another host of the URL.
        replica.close()
        raise
    finally:
        connections[DEFAULT_DB_ALIAS] = primary
        _idle.append(replica)


def _take_connection() -> BaseDatabaseWrapper:
    with contextlib.suppress(IndexError):
        kept = _idle.pop()
        kept.close_if_unusable_or_obsolete()
        return kept
    created = connections.create_connection(REPLICA_ALIAS)
    created.alias = DEFAULT_DB_ALIAS
    created.inc_thread_sharing()
    return created


def _check_age(replica: BaseDatabaseWrapper) -> None:
    """Raises _Outdated."""
    if time.monotonic() < _State.checked_until:
        return
    with replica.cursor() as cursor:
        cursor.execute(_AGE)
        (age,) = cursor.fetchone() or (None,)
    if age is None:
        raise _Outdated("no worker has stored a heartbeat")
    if age > MAX_AGE_SECONDS:
        raise _Outdated(f"the data is {age:.0f} s old")
    _State.checked_until = time.monotonic() + _CHECK_SECONDS


def _skip(reason: str, error: Exception) -> None:
    _State.skipped_until = time.monotonic() + PAUSE_SECONDS
    _State.checked_until = 0.0
    metrics.REPLICA_SKIPS.labels(reason).inc()
    logger.warning("read replica skipped", extra={"reason": reason, "error": str(error)})
