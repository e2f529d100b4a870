"""Metrics of the job queue and of the database's reachability, read at every export."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from prometheus_client.core import GaugeMetricFamily, Metric

from authsvc.db import read_replica
from authsvc.db.postgresql import response_timeout
from authsvc.jobs import registry

TIMEOUT_SECONDS = 2.0
"""Longest wait for one query. A hanging server or name look-up holds its thread for longer."""

# The event is read of one job only: that of every job of a long queue would exceed the timeout.
_SQL = """
    SELECT waiting, running, failed, EXTRACT(epoch FROM clock_timestamp() - LEAST(due_at,
        (SELECT min(at) FROM procrastinate_events WHERE job_id = first_id)))
    FROM (
        SELECT count(*) FILTER (WHERE status = 'todo') AS waiting, count(*) FILTER (WHERE status = 'doing') AS running,
            count(*) FILTER (WHERE status = 'failed') AS failed,
            min(scheduled_at) FILTER (WHERE status = 'todo' AND scheduled_at <= now()) AS due_at,
            min(id) FILTER (WHERE status = 'todo' AND scheduled_at IS NULL) AS first_id
        FROM procrastinate_jobs WHERE queue_name = %s AND status <> 'succeeded') queue"""
_STATES = ("waiting", "running", "failed")


def _one_thread(server: str) -> ThreadPoolExecutor:
    """One thread, so that queries to a server that hangs do not pile up."""
    return ThreadPoolExecutor(
        max_workers=1,
        thread_name_prefix=f"queue-metrics-{server}",
        initializer=response_timeout.limit_this_thread,
        initargs=(TIMEOUT_SECONDS,),
    )


primary_thread, replica_thread = _one_thread("primary"), _one_thread("replica")


class QueueCollector:
    """A collector of prometheus_client that waits at most three times `TIMEOUT_SECONDS`.

    Leaves the queue out while the database does not answer.
    """

    def collect(self) -> Iterator[Metric]:
        started = time.monotonic()
        try:
            read_row("SELECT 1", (), only_primary=True)
        except (Error, FutureTimeout):
            yield GaugeMetricFamily("auth_database_up", "1 when the database answers, otherwise 0.", value=0)
            return
        yield GaugeMetricFamily("auth_database_up", "1 when the database answers, otherwise 0.", value=1)
        duration = time.monotonic() - started
        yield GaugeMetricFamily("auth_database_answer_seconds", "Time to connect and run a statement.", value=duration)
        try:
            waiting, running, failed, age = read_row(_SQL, [registry.queue()])
        except (Error, FutureTimeout):
            return
        jobs = GaugeMetricFamily("auth_queue_jobs", "Jobs by state.", labels=["state"])
        for state, count in zip(_STATES, (waiting, running, failed), strict=True):
            jobs.add_metric([state], count)
        yield jobs
        yield GaugeMetricFamily(
            "auth_queue_oldest_job_seconds", "Time that the oldest due job has waited.", value=max(0.0, float(age or 0))
        )


def read_row(sql: str, parameters: Sequence[str], *, only_primary: bool = False) -> tuple[Any, ...]:
    """The row of a query, from a replica where one is usable. Waits at most twice `TIMEOUT_SECONDS`.

    Raises TimeoutError of concurrent.futures, and django.db errors.
    """
    if not only_primary and read_replica.is_configured():
        # A replica that does not answer is skipped later, when its attempt ends.
        with contextlib.suppress(Error, FutureTimeout):
            return _result(replica_thread.submit(_read_row, sql, parameters, True))
    return _result(primary_thread.submit(_read_row, sql, parameters, False))


def _result(query: Future[tuple[Any, ...]]) -> tuple[Any, ...]:
    try:
        return query.result(TIMEOUT_SECONDS)
    finally:
        query.cancel()


def _read_row(sql: str, parameters: Sequence[str], from_replica: bool) -> tuple[Any, ...]:
    connection = connections.create_connection(DEFAULT_DB_ALIAS)
    options = {**connection.settings_dict["OPTIONS"], "connect_timeout": str(int(TIMEOUT_SECONDS))}
    connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}
    connections[DEFAULT_DB_ALIAS] = connection
    try:
        with read_replica.permit(from_replica):
            return read_replica.read(lambda: _fetch(sql, parameters))
    finally:
        connection.close()


def _fetch(sql: str, parameters: Sequence[str]) -> tuple[Any, ...]:
    with transaction.atomic(), connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {int(TIMEOUT_SECONDS * 1000)}")
        cursor.execute(sql, parameters)
        (row,) = cursor.fetchall()
    return tuple(row)
