"""The worker delivers every committed message to the mail server, also after crashes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from psycopg import sql

from authsvc import jobs, messaging
from authsvc.jobs import registry
from authsvc.jobs import worker as worker_module
from authsvc.messaging import Email, EmailType, Sms, SmsType
from mailer.delivery import tasks
from mailer.models import Attempt
from tests import ports
from tests.conftest import ChangeConfig
from tests.fakes.smtp import FakeSmtp
from tests.live import servers
from tests.mailer.conftest import Queue
from tests.settings import ENVIRONMENT
from tests.timeouts import TIMEOUT_SECONDS, wait_until

pytestmark = pytest.mark.django_db


def post(**fields: Any) -> Email:
    """Send an email in a separate transaction."""
    variables = {"Email": "ada@example.com", "Token": "987654", "SiteURL": "http://localhost:3000", "Data": {}}
    message = Email(type=EmailType.REAUTHENTICATION, to="ada@example.com", variables=variables, **fields)
    with transaction.atomic():
        messaging.send(message)
    return message


def message_ids(server: FakeSmtp) -> list[UUID]:
    return [UUID(received.message["Message-ID"].strip("<>").partition("@")[0]) for received in server.received]


@contextlib.contextmanager
def process(*arguments: str, server: FakeSmtp) -> Iterator[subprocess.Popen[str]]:
    """A Python process on the test database, with `server` as its mail server."""
    url = servers.server_url().replace("/postgres?", f"/{connection.settings_dict['NAME']}?")
    env = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    env |= {**ENVIRONMENT, "DATABASE_URL": url, "PYTHONPATH": str(servers.PROJECT), "AUTH_LOG_LEVEL": "info"}
    env |= {"AUTH_SMTP_HOST": server.host, "AUTH_SMTP_PORT": str(server.port), "AUTH_SMTP_ADMIN_EMAIL": "a@example.com"}
    env["DJANGO_SETTINGS_MODULE"] = "authsvc.settings"
    started = subprocess.Popen(
        [sys.executable, *arguments],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


WORKER = (str(servers.PROJECT / "manage.py"), "worker")


# --- delivery ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_committed_email_arrives_and_leaves_the_queue(queue: Queue, smtp: FakeSmtp, worker: jobs.Worker) -> None:
    message = post()
    wait_until(lambda: queue.outcomes() == [(1, "delivered")] and not queue.jobs(), "a delivery")
    assert message_ids(smtp) == [message.id]


@pytest.mark.django_db(transaction=True)
def test_a_job_with_an_argument_of_a_newer_version_is_done(queue: Queue, smtp: FakeSmtp, worker: jobs.Worker) -> None:
    with transaction.atomic():
        message = post()
        with connection.cursor() as cursor:
            cursor.execute("""UPDATE procrastinate_jobs SET args = args || '{"colour": "blue"}'""")
    wait_until(lambda: queue.outcomes() == [(1, "delivered")] and not queue.jobs(), "a delivery")
    assert message_ids(smtp) == [message.id]


@pytest.mark.django_db(transaction=True)
def test_an_email_of_a_rolled_back_transaction_is_not_sent(queue: Queue, smtp: FakeSmtp, worker: jobs.Worker) -> None:
    with transaction.atomic():
        messaging.send(Email(type=EmailType.INVITE, to="never@example.com", variables={}))
        transaction.set_rollback(True)
    sent = post()
    wait_until(lambda: smtp.received, "an email")
    assert message_ids(smtp) == [sent.id]


@pytest.mark.django_db(transaction=True)
def test_emails_sent_before_the_worker_starts_are_delivered(queue: Queue, smtp: FakeSmtp) -> None:
    message = post()
    running = jobs.Worker()
    running.start()
    wait_until(lambda: not queue.jobs(), "an empty queue")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    assert message_ids(smtp) == [message.id]


@pytest.mark.django_db(transaction=True)
def test_a_code_by_sms_does_not_wait_for_the_emails_before_it(queue: Queue, smtp: FakeSmtp) -> None:
    post()
    post()
    code = Sms(type=SmsType.CONFIRMATION, to="15551234567", channel="sms", variables={"Code": "987654"})
    with transaction.atomic():
        messaging.send(code)
    running = jobs.Worker()
    running.start()
    wait_until(lambda: len(queue.outcomes()) == 3, "three attempts")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    channels = list(Attempt.objects.order_by("created_at").values_list("channel", flat=True))
    assert channels == ["sms", "email", "email"]
    [retried] = queue.jobs()
    assert (retried["status"], retried["priority"]) == ("todo", 0)


@pytest.mark.django_db(transaction=True)
def test_an_email_is_retried_until_the_mail_server_is_back(
    queue: Queue, auth_config: ChangeConfig, worker: jobs.Worker
) -> None:
    server = FakeSmtp(port=ports.free_port())
    auth_config(smtp={"host": server.host, "port": server.port, "admin_email": "noreply@example.com"})
    message = post()
    wait_until(lambda: queue.outcomes() == [(1, "retry")] and queue.states() == ["todo"], "a retry")
    assert timedelta(seconds=4) < queue.pause() < timedelta(seconds=20)
    queue.make_due()
    wait_until(lambda: len(queue.outcomes()) == 2 and queue.states() == ["todo"], "the second retry")
    assert timedelta(seconds=20) < queue.pause() < timedelta(seconds=60)
    with server:
        queue.make_due()
        wait_until(lambda: not queue.jobs(), "an empty queue")
        assert message_ids(server) == [message.id]
    assert queue.outcomes() == [(1, "retry"), (2, "retry"), (3, "delivered")]


@pytest.mark.django_db(transaction=True)
def test_an_email_that_expires_before_its_next_retry_is_retried_earlier(
    queue: Queue, smtp: FakeSmtp, worker: jobs.Worker
) -> None:
    smtp.replies["RCPT"] = "450 4.2.0 greylisted"
    expires_at = timezone.now() + timedelta(minutes=8)
    post(expires_at=expires_at)
    wait_until(lambda: queue.states() == ["todo"] and queue.outcomes(), "a retry")
    queue.make_due(attempts=3)
    wait_until(lambda: queue.states() == ["todo"] and len(queue.outcomes()) == 2, "the second retry")
    assert queue.outcomes() == [(1, "retry"), (4, "retry")]
    assert tasks.RETRY_DELAYS[3] == timedelta(minutes=10)
    assert timedelta(minutes=3) < expires_at - queue.next_run() < timedelta(minutes=5)


@pytest.mark.django_db(transaction=True)
def test_a_permanently_rejected_email_is_kept_as_failed(queue: Queue, smtp: FakeSmtp, worker: jobs.Worker) -> None:
    smtp.replies["RCPT"] = "550 5.1.1 no such user"
    post()
    wait_until(lambda: queue.states() == ["failed"], "a failed job")
    assert queue.outcomes() == [(1, "failed")]


@pytest.mark.django_db(transaction=True)
def test_an_email_fails_after_the_last_retry_and_can_be_retried_manually(
    queue: Queue, smtp: FakeSmtp, worker: jobs.Worker
) -> None:
    smtp.replies["RCPT"] = "450 4.2.0 greylisted"
    message = post()
    wait_until(lambda: queue.states() == ["todo"] and queue.outcomes(), "a retry")
    queue.make_due(attempts=len(tasks.RETRY_DELAYS))
    wait_until(lambda: queue.states() == ["failed"], "a failed job")
    assert queue.outcomes() == [(1, "retry"), (len(tasks.RETRY_DELAYS) + 1, "failed")]
    smtp.replies.clear()
    jobs.retry_failed_job(job_id=queue.jobs()[0]["id"])
    wait_until(lambda: not queue.jobs(), "an empty queue")
    assert message_ids(smtp) == [message.id]


@pytest.mark.django_db(transaction=True)
def test_jobs_of_another_installation_are_not_run(
    queue: Queue, smtp: FakeSmtp, auth_config: ChangeConfig, worker: jobs.Worker
) -> None:
    auth_config(database={"namespace": "second"})
    post()
    auth_config(database={"namespace": ""})
    ours = post()
    wait_until(queue.outcomes, "an attempt")
    assert message_ids(smtp) == [ours.id]
    wait_until(
        lambda: [job["queue_name"] for job in queue.jobs()] == ["second_"], "only the job of the other namespace"
    )


# --- other tasks ------------------------------------------------------------------------------------------------------


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the tasks that a test registers."""
    monkeypatch.setattr(registry, "tasks", dict(registry.tasks))
    monkeypatch.setattr(registry, "periodic_tasks", dict(registry.periodic_tasks))


def test_a_task_that_raises_is_retried_and_then_kept_as_failed(queue: Queue, registered: None) -> None:
    seen: list[tuple[int, int, timedelta | None]] = []

    @jobs.task(name="tests.raise", retry_delays=[timedelta(0)])
    def break_down(run: jobs.Run, /, *, number: int) -> None:
        seen.append((number, run.attempt, run.retry_delay))
        raise ZeroDivisionError

    break_down.defer(number=7)
    running = jobs.Worker()
    running.start()
    wait_until(lambda: queue.states() == ["failed"], "a failed job")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    assert seen == [(7, 1, timedelta(0)), (7, 2, None)]


def test_a_job_does_not_wait_forever_for_the_database(queue: Queue, registered: None) -> None:
    seen: list[str] = []

    @jobs.task(name="tests.ask")
    def ask(_run: jobs.Run, /, *, seconds: int) -> None:
        with connection.cursor() as cursor:
            try:
                cursor.execute("SELECT pg_sleep(%s)", (seconds,))
            except OperationalError as error:
                seen.append(str(error))
                raise
            seen.append("answered")

    ask.defer(seconds=3)
    ask.defer(seconds=0)
    running = jobs.Worker(response_timeout_seconds=1.0)
    running.start()
    wait_until(lambda: queue.states() == ["failed"], "a failed job")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    assert seen == ["the server has not answered for 1 s", "answered"]


def test_a_job_of_a_task_of_a_newer_version_waits_for_that_version(
    queue: Queue, registered: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    runs: list[int] = []

    @jobs.task(name="tests.newer")
    def newer(run: jobs.Run, /) -> None:
        runs.append(run.attempt)

    newer.defer()
    del registry.tasks["tests.newer"]
    older_version = jobs.Worker()
    older_version.start()
    wait_until(lambda: any(job["scheduled_at"] for job in queue.jobs()), "a postponed job")
    assert [(job["status"], job["attempts"]) for job in queue.jobs()] == [("todo", 0)]
    assert older_version.stop(seconds=TIMEOUT_SECONDS)
    assert [record.message for record in caplog.records if "task" in record.message] == ["job of an unknown task"]

    registry.tasks["tests.newer"] = newer
    queue.make_due()
    newer_version = jobs.Worker()
    newer_version.start()
    wait_until(lambda: not queue.jobs(), "an empty queue")
    assert newer_version.stop(seconds=TIMEOUT_SECONDS)
    assert runs == [1]


def test_no_job_runs_while_the_clocks_of_host_and_database_differ(
    queue: Queue, smtp: FakeSmtp, caplog: pytest.LogCaptureFixture
) -> None:
    message = post()
    running = jobs.Worker(max_clock_difference=timedelta(seconds=-1))
    running.start()
    wait_until(lambda: "no jobs are run" in caplog.messages, "the log message")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    assert (queue.states(), smtp.received) == (["todo"], [])

    running = jobs.Worker()
    running.start()
    wait_until(lambda: not queue.jobs(), "an empty queue")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    assert message_ids(smtp) == [message.id]


def test_periodic_tasks_run_on_schedule_and_leave_no_failed_job(queue: Queue, registered: None) -> None:
    runs: list[str] = []

    @jobs.periodic(name="tests.fail", cron="* * * * * *")
    def fail() -> None:
        runs.append("fail")
        raise ZeroDivisionError

    @jobs.periodic(name="tests.tick", cron="* * * * * *")
    def tick() -> None:
        runs.append("tick")

    running = jobs.Worker()
    running.start()
    wait_until(lambda: runs.count("tick") > 1 and runs.count("fail") > 1, "two runs of each task")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    assert "failed" not in queue.states()


def test_task_names_are_unique(registered: None) -> None:
    jobs.periodic(name="tests.once", cron="* * * * *")(lambda: None)
    with pytest.raises(ValueError, match=r"tests\.once"):
        jobs.task(name="tests.once")(lambda _run: None)


# --- crashes and shutdowns -------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_the_email_of_a_killed_worker_is_delivered_by_another_worker(
    queue: Queue, smtp: FakeSmtp, registered: None
) -> None:
    @jobs.task(name="tests.wait", retry_delays=[timedelta(0)] * worker_module.MAX_ATTEMPTS)
    def wait(_run: jobs.Run, /) -> None:
        """Has attempts left after those of other jobs."""

    smtp.hold = True
    message = post()
    with process(*WORKER, server=smtp) as killed:
        wait_until(lambda: smtp.held, "a connection to the mail server")
        killed.kill()
        killed.wait()
    smtp.hold = False
    post()
    wait.defer()
    queue.run_last_attempt_of_dead_worker()
    running = jobs.Worker()
    running.start()
    queue.make_stale()
    wait_until(lambda: queue.states() == ["failed"], "only the job of too many dead workers")
    assert running.stop(seconds=TIMEOUT_SECONDS)
    assert message_ids(smtp) == [message.id]
    assert queue.outcomes() == [(2, "delivered")]
    assert [job["attempts"] for job in queue.jobs()] == [worker_module.MAX_ATTEMPTS]


@pytest.mark.django_db(transaction=True)
def test_the_email_of_a_running_worker_is_not_delivered_by_another_worker(
    queue: Queue, smtp: FakeSmtp, worker: jobs.Worker
) -> None:
    smtp.delay = 6
    message = post()
    wait_until(lambda: queue.states() == ["doing"], "a running job")
    other = jobs.Worker()
    other.start()
    wait_until(lambda: not queue.jobs(), "an empty queue")
    assert other.stop(seconds=TIMEOUT_SECONDS)
    assert message_ids(smtp) == [message.id]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_worker_finishes_the_running_delivery_after_a_signal(
    queue: Queue, smtp: FakeSmtp, number: signal.Signals
) -> None:
    smtp.hold = True
    message = post()
    with process(*WORKER, server=smtp) as stopped:
        wait_until(lambda: smtp.held, "a connection to the mail server")
        later = post()
        for other in (signal.SIGUSR2, signal.SIGUSR1):
            stopped.send_signal(other)
        assert stopped.stdout is not None
        assert any("access tokens are signed with HS256" in line for line in stopped.stdout)
        assert any("reloader: signal ignored" in line for line in stopped.stdout)
        stopped.send_signal(number)
        assert any('"msg":"received graceful shutdown signal"' in line for line in stopped.stdout)
        smtp.hold = False
        output, _ = stopped.communicate(timeout=TIMEOUT_SECONDS)
    assert stopped.returncode == 0, output
    assert message_ids(smtp) == [message.id]
    assert str(later.id) in str(queue.jobs())


@contextlib.contextmanager
def outage() -> Iterator[None]:
    """End all database connections but the one of this test and reject new ones, like a database that restarts."""
    name = connection.settings_dict["NAME"]
    with psycopg.connect(servers.server_url(), autocommit=True) as other:
        allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        other.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        try:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
                [name, connection.connection.info.backend_pid],
            )
            yield
        finally:
            other.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


def is_listened_to() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
        return cursor.fetchone() is not None


@pytest.mark.django_db(transaction=True)
def test_a_worker_continues_after_a_database_outage(queue: Queue, smtp: FakeSmtp, worker: jobs.Worker) -> None:
    first = post()
    wait_until(lambda: not queue.jobs(), "an empty queue")
    wait_until(is_listened_to, "a worker that listens")
    with outage():
        second = post()
        time.sleep(worker_module.CONNECT_SECONDS + 1)  # longer than one attempt to connect
        assert not is_listened_to()
    wait_until(lambda: not queue.jobs(), "an empty queue")
    wait_until(is_listened_to, "a worker that listens")
    assert message_ids(smtp) == [first.id, second.id]


@pytest.mark.django_db(transaction=True)
def test_an_outage_during_a_delivery_does_not_send_it_twice(queue: Queue, smtp: FakeSmtp, worker: jobs.Worker) -> None:
    smtp.hold = True
    message = post()
    wait_until(lambda: smtp.held, "a connection to the mail server")
    with outage():
        smtp.hold = False
        wait_until(lambda: smtp.received, "an email")
        time.sleep(worker_module.CONNECT_SECONDS + 1)  # longer than one attempt to connect
    wait_until(lambda: not queue.jobs(), "an empty queue")
    assert message_ids(smtp) == [message.id]


@pytest.mark.django_db(transaction=True)
def test_a_worker_gives_the_others_time_for_a_heartbeat_before_it_takes_their_jobs(
    queue: Queue, smtp: FakeSmtp
) -> None:
    smtp.hold = True
    message = post()
    with process(*WORKER, server=smtp) as first:
        wait_until(lambda: smtp.held, "a connection to the mail server")
        first.send_signal(signal.SIGSTOP)
        # As after a minute without a database.
        queue.make_stale()
        other = jobs.Worker()
        other.start()
        time.sleep(worker_module.RECLAIM_SECONDS)
        assert ([job["attempts"] for job in queue.jobs()], smtp.held) == ([0], 1)
        first.send_signal(signal.SIGCONT)
        smtp.hold = False
        wait_until(lambda: not queue.jobs(), "an empty queue")
        assert other.stop(seconds=TIMEOUT_SECONDS)
    assert message_ids(smtp) == [message.id]


class SlowSmtp(FakeSmtp):
    """Checks each message for longer than a worker may be without a heartbeat."""

    async def fault(self, moment: str, server: Any) -> str | None:
        if moment == "DATA":
            await asyncio.sleep(worker_module.STALE_AFTER.total_seconds() + 2 * worker_module.RECLAIM_SECONDS)
        return await super().fault(moment, server)


@pytest.mark.django_db(transaction=True)
def test_no_worker_takes_the_job_of_one_that_stops(queue: Queue, auth_config: ChangeConfig) -> None:
    with SlowSmtp() as smtp:
        auth_config(smtp={"host": smtp.host, "port": smtp.port, "admin_email": "noreply@example.com"})
        post()
        stopping = jobs.Worker()
        stopping.start()
        wait_until(lambda: smtp.transmitted, "a transmitted email")
        other = jobs.Worker()
        other.start()
        assert stopping.stop(seconds=TIMEOUT_SECONDS)
        assert other.stop(seconds=TIMEOUT_SECONDS)
    assert (len(smtp.transmitted), queue.outcomes()) == (1, [(1, "delivered")])


# --- workers of a server ----------------------------------------------------------------------------------------------


SERVING = """
import django; django.setup()
import os, threading
from authsvc import jobs
jobs.start_in_process()
jobs.start_in_process()
print([thread.name for thread in threading.enumerate() if thread.name == "jobs"], flush=True)
"""


@pytest.mark.django_db(transaction=True)
def test_a_serving_process_has_one_worker_and_finishes_its_delivery_at_exit(queue: Queue, smtp: FakeSmtp) -> None:
    smtp.hold = True
    message = post()
    with process("-c", f"{SERVING}open(0).read()\nprint('exit', flush=True)", server=smtp) as server:
        wait_until(lambda: smtp.held, "a connection to the mail server")
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.close()
        output = "".join(iter(server.stdout.readline, "exit\n"))
        smtp.hold = False
        server.wait(TIMEOUT_SECONDS)
    assert "['jobs']" in output
    assert message_ids(smtp) == [message.id]
    assert queue.outcomes() == [(1, "delivered")]
    assert queue.jobs() == []


@pytest.mark.django_db(transaction=True)
def test_a_forked_process_has_a_separate_worker(queue: Queue, smtp: FakeSmtp) -> None:
    forking = """
child = os.fork()
def names():
    # The threads of worker loops may end later than the worker.
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("job")]
if not child:
    started = names()
    jobs.stop_in_process()
    print("in the child", "jobs" in started, names(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    with process("-W", "ignore::DeprecationWarning", "-c", SERVING + forking, server=smtp) as parent:
        output, _ = parent.communicate(timeout=TIMEOUT_SECONDS)
    assert "in the child True []" in output


@pytest.mark.django_db(transaction=True)
def test_workers_can_be_separate_processes(queue: Queue, auth_config: ChangeConfig, smtp: FakeSmtp) -> None:
    auth_config(mailer={"worker_enabled": False})
    jobs.start_in_process()
    with process(*WORKER, server=smtp):
        message = post()
        wait_until(lambda: not queue.jobs(), "an empty queue")
        assert message_ids(smtp) == [message.id]
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM procrastinate_workers")
            assert cursor.fetchone() == (1,)
