"""Fixtures of the mailer tests: the job queue of the test database, a worker and an SMTP server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from authsvc import jobs
from authsvc.jobs.worker import MAX_ATTEMPTS
from mailer.models import Attempt
from mailer.rendering import template_cache
from tests.conftest import ChangeConfig
from tests.fakes.smtp import FakeSmtp
from tests.timeouts import TIMEOUT_SECONDS


@pytest.fixture(autouse=True)
def _empty_template_cache() -> None:
    template_cache.shared.clear()


class Queue:
    """The rows in the tables of the queue, and changes that simulate the passage of time."""

    def jobs(self) -> list[dict[str, Any]]:
        # Workers also defer periodic tasks there, with their due time as an argument.
        return self._rows(
            "SELECT id, queue_name, status::text, priority, attempts, scheduled_at, args FROM procrastinate_jobs"
            " WHERE NOT args ? 'timestamp' ORDER BY id"
        )

    def states(self) -> list[str]:
        return [job["status"] for job in self.jobs()]

    def outcomes(self) -> list[tuple[int, str]]:
        return list(Attempt.objects.order_by("created_at").values_list("attempt", "outcome"))

    def pause(self) -> timedelta:
        """The time between the newest attempt and the next one."""
        return self.next_run() - Attempt.objects.latest("created_at").created_at

    def next_run(self) -> datetime:
        (job,) = self.jobs()
        due: datetime = job["scheduled_at"]
        return due

    def make_due(self, *, attempts: int = 0) -> None:
        """Make waiting jobs due now, after at least this number of attempts."""
        self._run(
            "UPDATE procrastinate_jobs SET scheduled_at = now(), attempts = greatest(attempts, %s)"
            " WHERE status = 'todo'",
            attempts,
        )

    def make_stale(self) -> None:
        """Make the last heartbeat of every worker a minute old."""
        self._run("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 minute'")

    def run_last_attempt_of_dead_worker(self) -> None:
        """Make waiting jobs those of a worker that has died during the last attempt."""
        self._run(
            "UPDATE procrastinate_jobs SET status = 'doing', attempts = %s WHERE status = 'todo'", MAX_ATTEMPTS - 1
        )

    def clear(self) -> None:
        self._run("DELETE FROM procrastinate_jobs")
        self._run("DELETE FROM procrastinate_workers")

    def _run(self, sql: str, *parameters: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def queue(transactional_db: None) -> Iterator[Queue]:
    tables = Queue()
    tables.clear()
    yield tables
    tables.clear()


@pytest.fixture
def smtp(auth_config: ChangeConfig) -> Iterator[FakeSmtp]:
    """A mail server, and the settings that use it."""
    with FakeSmtp() as server:
        auth_config(smtp={"host": server.host, "port": server.port, "admin_email": "noreply@example.com"})
        yield server


@pytest.fixture
def worker(queue: Queue) -> Iterator[jobs.Worker]:
    """A running worker."""
    running = jobs.Worker()
    running.start()
    yield running
    assert running.stop(seconds=TIMEOUT_SECONDS)
