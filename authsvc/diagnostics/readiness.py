"""Checks that this process is ready: the database responds, and migrations are applied.

The state of the queue is shown beside them. It makes no process unready: without a worker, all servers would become
unready at once, although only messages wait.
"""

from __future__ import annotations

import logging
import pkgutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from authsvc import jobs
from authsvc.db.postgresql import response_timeout
from authsvc.db.sql import namespaced

LIMIT_SECONDS = 2.0
"""Timeout after which the database counts as unreachable."""
KEPT_SECONDS = 1.0
"""Time for which a result is reused, so that frequent requests cost one check."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """Result of the checks; `checks` has `ok` and details for `database`, `migrations` and `queue`."""

    checks: dict[str, dict[str, Any]]

    @property
    def is_ready(self) -> bool:
        return all(check["ok"] for name, check in self.checks.items() if name != "queue")

    @property
    def payload(self) -> dict[str, Any]:
        return {"ready": self.is_ready, "checks": self.checks}


_UNREACHABLE = State({name: {"ok": False} for name in ("database", "migrations", "queue")})


class Checks:
    """Runs one check at a time and reuses its result for `KEPT_SECONDS`."""

    def __init__(self, read_state: Callable[[], State], *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._read_state = read_state
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._latest: Future[State] | None = None
        self._ended_at = 0.0

    def state(self) -> State:
        """The state, at most `KEPT_SECONDS` old. Takes at most `limit_seconds`."""
        with self._lock:
            latest = self._latest
            if latest is None or (latest.done() and time.monotonic() - self._ended_at >= KEPT_SECONDS):
                # In a thread, at most one, because a query to a database that hangs cannot be interrupted.
                latest = Future()
                try:
                    threading.Thread(target=self._run, args=(latest,), name="readiness", daemon=True).start()
                except RuntimeError:  # no room for one more thread
                    return _UNREACHABLE
                self._latest = latest
        try:
            return latest.result(self._limit_seconds)
        except TimeoutError:
            return _UNREACHABLE

    def _run(self, result: Future[State]) -> None:
        state = _UNREACHABLE
        # A frozen server does not enforce `statement_timeout`. One second longer, so that others report theirs.
        response_timeout.limit_this_thread(LIMIT_SECONDS + 1)
        try:
            state = self._read_state()
        except Exception as error:  # noqa: BLE001  (after any error the service is not ready)
            logger.warning("not ready", extra={"error": str(error)})
        finally:
            self._ended_at = time.monotonic()
            result.set_result(state)


def check() -> State:
    """The state of this process, at most a second old."""
    return shared_checks.state()


@cache
def open_kept_connection() -> BaseDatabaseWrapper:
    """The connection of the checks. A full database refuses new ones, but serves the requests of this process."""
    connection = connections.create_connection(DEFAULT_DB_ALIAS)
    # Each check has a thread of its own, one after the other.
    connection.inc_thread_sharing()
    return connection


def read_state() -> State:
    """The state now. Replaces the default connection of the thread. Raises django.db errors."""
    started = time.monotonic()
    # `transaction.atomic` uses the thread's default connection.
    connections[DEFAULT_DB_ALIAS] = connection = open_kept_connection()
    connection.close_if_unusable_or_obsolete()
    with transaction.atomic(), connection.cursor() as cursor:
        # In a transaction, so that the timeout does not stay on a connection of a pooler.
        cursor.execute(f"SET LOCAL statement_timeout = '{LIMIT_SECONDS:.0f}s'")
        cursor.execute("SELECT current_setting('transaction_read_only')::boolean")
        ((is_read_only,),) = cursor.fetchall()
        missing = missing_migrations(cursor)
        # The queue of another version may have other tables.
        queue = {"ok": False} if missing else _queue_result(cursor)
    if is_read_only:
        # Of several servers, the next check connects to the one that accepts writes.
        connection.close()
    return State(
        {
            "database": {"ok": not is_read_only, "milliseconds": round((time.monotonic() - started) * 1000)},
            "migrations": {"ok": not missing, "missing": len(missing)},
            "queue": queue,
        }
    )


def missing_migrations(cursor: CursorWrapper) -> set[tuple[str, str]]:
    """App and name of every migration of this version that is not applied. Raises django.db errors."""
    log = cursor.db.ops.quote_name(namespaced("django_migrations"))
    cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [log])
    row = cursor.fetchone()
    if not (row and row[0]):
        return set(_migrations_of_this_version())
    cursor.execute(f"SELECT app, name FROM {log}")  # noqa: S608  (a name of our own)
    return set(_migrations_of_this_version()) - set(cursor.fetchall())


@cache
def _migrations_of_this_version() -> frozenset[tuple[str, str]]:
    """Read from file names, because loading the migrations takes memory."""
    migrations = set()
    for app in apps.get_app_configs():
        try:
            package = import_module(f"{app.name}.migrations")
        except ModuleNotFoundError:
            continue
        migrations |= {
            (app.label, module.name) for module in pkgutil.iter_modules(package.__path__) if module.name[0] not in "_~"
        }
    return frozenset(migrations)


def _queue_result(cursor: CursorWrapper) -> dict[str, Any]:
    health = jobs.read_worker_health(cursor)
    return {"ok": health.is_healthy, "oldest_due_seconds": round(health.job_delay or 0, 1)}


shared_checks = Checks(read_state)
