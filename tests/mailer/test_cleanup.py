"""Old delivery attempts and failed jobs are deleted."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from authsvc import messaging
from authsvc.jobs import cleanup
from authsvc.messaging import Email, EmailType
from mailer import tasks
from mailer.models import Attempt, AttemptOutcome
from tests.conftest import ChangeConfig
from tests.mailer.conftest import Queue

RETENTION, HOUR = timedelta(days=2), timedelta(hours=1)


@pytest.fixture(autouse=True)
def _retention(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"retention": RETENTION})


def queue_message(name: str, *, status: str, age: timedelta) -> None:
    """A message in this state since `age`."""
    with transaction.atomic():
        messaging.send(Email(type=EmailType.REAUTHENTICATION, to=f"{name}@example.com", variables={"Token": "987654"}))
    backdate = "UPDATE procrastinate_events SET at = at - make_interval(secs => %s) WHERE job_id = %s"
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(id) FROM procrastinate_jobs")
        job = cursor.fetchone()
        cursor.execute(backdate, [100 * age.total_seconds(), *job])
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing' WHERE id = %s", job)
        if status != "doing":
            cursor.execute("UPDATE procrastinate_jobs SET status = %s WHERE id = %s", [status, *job])
        cursor.execute(backdate, [age.total_seconds(), *job])


@pytest.mark.django_db(transaction=True)
def test_jobs_that_failed_long_ago_are_deleted(queue: Queue) -> None:
    queue_message("old", status="failed", age=RETENTION + HOUR)
    queue_message("young", status="failed", age=RETENTION - HOUR)
    queue_message("waiting", status="todo", age=RETENTION + HOUR)
    queue_message("running", status="doing", age=RETENTION + HOUR)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET task_name = 'tests.of_a_former_version' WHERE status = 'failed'")

    tasks.delete_failed()

    assert queue.states() == ["failed", "todo", "doing"]


@pytest.mark.django_db
@pytest.mark.parametrize("cleanup_enabled", [True, False])
def test_old_attempts_are_deleted(auth_config: ChangeConfig, cleanup_enabled: bool) -> None:
    auth_config(database={"cleanup_enabled": cleanup_enabled})
    at = timezone.now()
    for kind, age in (("old", RETENTION + HOUR), ("young", RETENTION - HOUR)):
        Attempt.objects.create(
            message_id=uuid4(),
            channel="email",
            kind=kind,
            attempt=1,
            created_at=at - age,
            outcome=AttemptOutcome.FAILED,
        )

    cleanup.run(at=at, only_mandatory=not cleanup_enabled)

    assert list(Attempt.objects.values_list("kind", flat=True)) == ["young"]
