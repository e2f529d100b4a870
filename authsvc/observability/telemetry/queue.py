"""How long the queue of jobs is and how long its oldest job has waited, and whether the database answers."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate

from django.db import DEFAULT_DB_ALIAS, Error, connections

from authsvc.jobs import registry
from authsvc.observability.metrics import Reading

PATIENCE_SECONDS = 2.0
"""What whoever asks waits; a database that hangs, or a name that does not resolve, takes longer."""

_SQL = """
    SELECT count(*) FILTER (WHERE status = 'todo'), count(*) FILTER (WHERE status = 'doing'),
        count(*) FILTER (WHERE status = 'failed'),
        EXTRACT(epoch FROM clock_timestamp() - min(COALESCE(scheduled_at,
            (SELECT min(at) FROM procrastinate_events WHERE job_id = procrastinate_jobs.id)))
            FILTER (WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= clock_timestamp())))
    FROM procrastinate_jobs WHERE queue_name = %s AND status <> 'succeeded'"""
_STATES = ("waiting", "running", "failed")

# One thread, so that questions to a database that hangs do not pile up.
_asking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="queue-figures")


def read() -> Iterator[Reading]:
    """A `metering.Gauge`: within `PATIENCE_SECONDS`, without the queue when it cannot be asked by then."""
    started = time.monotonic()
    question = _asking.submit(_ask)
    try:
        counts, age = question.result(PATIENCE_SECONDS)
    except (Error, TooLate):
        question.cancel()
        yield Reading(name="auth_database_up", help="Whether the database answers.", value=0)
        return
    yield Reading(name="auth_database_up", help="Whether the database answers.", value=1)
    took = time.monotonic() - started
    yield Reading(name="auth_database_answer", help="How long it took to ask.", value=took, unit="s")
    for state, count in zip(_STATES, counts, strict=True):
        yield Reading(name="auth_queue_jobs", help="Jobs by state.", value=count, labels=(("state", state),))
    help_text = "How long the oldest job that is due has waited."
    yield Reading(name="auth_queue_oldest_job", help=help_text, value=age, unit="s")


def _ask() -> tuple[tuple[int, int, int], float]:
    """(Jobs waiting, running and failed, the age of the oldest due one in seconds), over a connection of its own."""
    connection = connections.create_connection(DEFAULT_DB_ALIAS)
    connection.settings_dict = copy.deepcopy(connection.settings_dict)
    connection.settings_dict["OPTIONS"] |= {"connect_timeout": str(int(PATIENCE_SECONDS))}
    try:
        connection.set_autocommit(autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {int(PATIENCE_SECONDS * 1000)}")
            cursor.execute(_SQL, [registry.queue()])
            row = cursor.fetchone()
    finally:
        connection.close()
    assert row is not None  # noqa: S101  (aggregates always have a row)
    waiting, running, failed, age = row
    return (waiting, running, failed), max(0.0, float(age or 0))
