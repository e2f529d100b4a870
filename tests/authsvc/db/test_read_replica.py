"""Reads from a replica. A second database with other rows plays its part, so that each test sees which one was read."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, InternalError, OperationalError, connections, transaction

from accounts.models import User
from authsvc import conf
from authsvc.db import postgresql, read_replica
from authsvc.db.postgresql import response_timeout
from authsvc.db.sql import fetch_row
from authsvc.jobs import queue_metrics, registry
from authsvc.jobs.queue_metrics import QueueCollector
from hooks.webhooks.backlog_metrics import BacklogCollector
from tests import factories
from tests.accounts.administration.admin_requests import ask
from tests.authsvc.console import conftest as console_pages
from tests.authsvc.console.conftest import START, USERS, Console, page_of
from tests.conftest import Api, ChangeConfig
from tests.live import servers
from tests.recorded_metrics import RecordedMetrics

inside, console, operator = console_pages.inside, console_pages.console, console_pages.operator
pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/users?page=1"
FIRST, SECOND = "replica0", "replica1"
NEW_USER = "INSERT INTO users (id, email, aud) VALUES (gen_random_uuid(), %s, 'authenticated')"
HEARTBEAT = "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - %s * interval '1 second')"


class Clock:
    now = 1000.0


@pytest.fixture
def replica(
    transactional_db: None, fresh_database_url: str, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the replica, which has one user."""
    caplog.set_level(logging.WARNING, logger=read_replica.__name__)
    auth_config(database={"read_replica_url": conf.Secret(fresh_database_url)})
    with added_replica(fresh_database_url, alias=FIRST) as opened:
        opened.execute(NEW_USER, ["r@example.com"])
        yield opened


@contextlib.contextmanager
def added_replica(url: str, *, alias: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database that is a replica during the block."""
    database = dataclasses.replace(settings.AUTH.database, read_replica_url=conf.Secret(url))
    connections.settings[alias] = connections.configure_settings(postgresql.databases(database))[FIRST]
    try:
        with psycopg.connect(url, autocommit=True) as opened:
            opened.execute(HEARTBEAT, [1])
            yield opened
    finally:
        del connections.settings[alias]
        if replica := read_replica.replicas.pop(alias, None):
            for connection in replica.idle:
                connection.database.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of pauses and of the times between two checks of a replica's age."""
    clock = Clock()
    monkeypatch.setattr(read_replica, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def number_of_users() -> int:
    return User.objects.count()


def emails(api: Api, path: str = LIST, **headers: str) -> list[str]:
    response = ask(api, "GET", path, headers=headers)
    assert response.status_code == 200
    return [user["email"] for user in response.json()["users"]]


def test_only_permitted_reads_outside_transactions_use_the_replica(replica: Any) -> None:
    assert read_replica.read(number_of_users) == 0
    with read_replica.permit():
        assert read_replica.read(number_of_users) == 1
        assert number_of_users() == 0
        with transaction.atomic():
            factories.make_user(email="a@example.com")
            factories.make_user(email="b@example.com")
            assert read_replica.read(number_of_users) == 2
        with read_replica.permit(False):
            assert read_replica.read(number_of_users) == 2
        assert read_replica.read(number_of_users) == 1


def test_threads_share_connections_and_keep_their_own_to_the_primary(replica: Any) -> None:
    primary = connections[DEFAULT_DB_ALIAS]

    def backend() -> Any:
        assert connections[DEFAULT_DB_ALIAS] is not primary
        return fetch_row("SELECT pg_backend_pid()", [])

    def read() -> Any:
        with read_replica.permit():
            return read_replica.read(backend)

    first = read()
    assert connections[DEFAULT_DB_ALIAS] is primary
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(read).result() == first
        executor.submit(connections.close_all).result()


def test_nothing_is_written_to_a_replica(replica: Any) -> None:
    with read_replica.permit(), pytest.raises(InternalError, match="read-only transaction"):
        read_replica.read(lambda: factories.make_user(email="a@example.com"))
    assert number_of_users() == 0
    assert replica.execute("SELECT count(*) FROM users").fetchone() == (1,)


@pytest.mark.parametrize(
    "change",
    ["UPDATE procrastinate_workers SET last_heartbeat = now() - interval '11 s'", "DELETE FROM procrastinate_workers"],
)
def test_a_replica_with_old_data_is_skipped_for_a_while(
    replica: Any, clock: Clock, recorded: RecordedMetrics, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    replica.execute(change)
    with read_replica.permit():
        assert [read_replica.read(number_of_users) for _ in range(3)] == [0, 0, 0]
        assert recorded.total("auth_replica_skips_total", reason="outdated") == 1
        [record] = caplog.records
        assert record.message == "read replica skipped"

        replica.execute(HEARTBEAT, [0])
        assert read_replica.read(number_of_users) == 0
        clock.now += read_replica.PAUSE_SECONDS
        assert read_replica.read(number_of_users) == 1


def test_a_prepared_statement_that_a_migration_has_changed_is_repeated_at_the_primary(replica: Any) -> None:
    factories.make_user(email="p@example.com")

    def read_email() -> str | None:
        return User.objects.values_list("email", flat=True).get()

    with read_replica.permit():
        # psycopg prepares a statement that has been executed five times.
        assert {read_replica.read(read_email) for _ in range(7)} == {"r@example.com"}
        replica.execute("ALTER TABLE users ALTER email TYPE text")
        assert read_replica.read(read_email) == "p@example.com"


@pytest.mark.parametrize(
    "change", ["ALTER TABLE users RENAME TO others", "ALTER TABLE procrastinate_workers RENAME TO others"]
)
def test_a_replica_of_another_schema_is_skipped(replica: Any, recorded: RecordedMetrics, change: str) -> None:
    replica.execute(change)
    with read_replica.permit():
        assert [read_replica.read(number_of_users) for _ in range(3)] == [0, 0, 0]
    assert recorded.total("auth_replica_skips_total", reason="unavailable") == 1


def test_an_export_has_rows_that_a_replica_lacks(replica: Any, inside: Console) -> None:
    """The replicas of an export may differ in age."""
    user = factories.make_user(email="p@example.com")
    replica.execute("INSERT INTO users (id, email, aud) VALUES (%s, %s, 'authenticated')", [user.pk, "old@example.com"])
    inside.client.cookies.pop("operator_changed")  # of the sign-in
    exported = inside.submit(START, to=f"{USERS}export/")
    replica.execute("DELETE FROM users WHERE id = %s", [user.pk])
    assert b"p@example.com" in b"".join(exported.streaming_content)  # type: ignore[attr-defined]


def test_another_replica_is_read_while_one_is_skipped(replica: Any, clock: Clock, recorded: RecordedMetrics) -> None:
    with servers.fresh_database() as url, added_replica(url, alias=SECOND) as other, read_replica.permit():
        for email in ("a@example.com", "b@example.com"):
            other.execute(NEW_USER, [email])
        assert {read_replica.read(number_of_users) for _ in range(100)} == {1, 2}

        other.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '11 s'")
        replica.execute(HEARTBEAT, [0])
        clock.now += 1
        assert [read_replica.read(number_of_users) for _ in range(100)] == [1] * 100
        assert recorded.total("auth_replica_skips_total", reason="outdated") == 1

        replica.execute("DELETE FROM procrastinate_workers")
        clock.now += 1
        assert read_replica.read(number_of_users) == 0


def test_a_statement_without_a_response_is_not_repeated(replica: Any, auth_config: ChangeConfig) -> None:
    auth_config(api={"max_request_duration": timedelta(milliseconds=1)})
    ran: list[int] = []

    def slow() -> None:
        ran.append(1)
        fetch_row("SELECT pg_sleep(5)", [])

    def read() -> None:
        response_timeout.apply_to_request_thread()
        try:
            with read_replica.permit(), pytest.raises(OperationalError, match="has not answered"):
                read_replica.read(slow)
        finally:
            connections[DEFAULT_DB_ALIAS].close()

    with ThreadPoolExecutor(1) as executor:
        executor.submit(read).result()
    assert ran == [1]
    with read_replica.permit():
        assert read_replica.read(number_of_users) == 0


def test_one_thread_tries_a_replica_after_the_pause(replica: Any, clock: Clock) -> None:
    def read(work: Callable[[], int]) -> int:
        with read_replica.permit():
            return read_replica.read(work)

    def read_while_another_thread_reads() -> int:
        assert executor.submit(read, number_of_users).result() == 0
        return number_of_users()

    replica.execute("DELETE FROM procrastinate_workers")
    with ThreadPoolExecutor(1) as executor:
        assert read(number_of_users) == 0
        replica.execute(HEARTBEAT, [0])
        clock.now += read_replica.PAUSE_SECONDS
        assert read(read_while_another_thread_reads) == 1
        assert executor.submit(read, number_of_users).result() == 1
        executor.submit(connections.close_all).result()


def test_metrics_do_not_wait_for_a_replica(replica: Any) -> None:
    release = threading.Event()
    # As a replica that does not answer.
    held = queue_metrics.replica_thread.submit(release.wait, 60)
    try:
        samples = {sample.name: sample.value for family in QueueCollector().collect() for sample in family.samples}
        assert samples["auth_database_up"] == 1
        assert "auth_queue_oldest_job_seconds" in samples
    finally:
        release.set()
        held.result()


def test_each_connection_is_checked(replica: Any, recorded: RecordedMetrics) -> None:
    """A name of a replica can have several servers."""

    def nested() -> int:
        with ThreadPoolExecutor(1) as executor:
            return executor.submit(read).result()

    def read() -> int:
        try:
            with read_replica.permit():
                return read_replica.read(number_of_users)
        finally:
            connections[DEFAULT_DB_ALIAS].close()

    with read_replica.permit():
        assert read_replica.read(number_of_users) == 1
        replica.execute("DELETE FROM procrastinate_workers")
        # The first connection was checked in this second, and the second one is new.
        assert read_replica.read(nested) == 0
    assert recorded.total("auth_replica_skips_total", reason="outdated") == 1


def test_a_lost_replica_is_skipped_and_the_work_runs_on_the_primary(
    replica: Any, recorded: RecordedMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    with read_replica.permit():
        assert read_replica.read(number_of_users) == 1
        backend = read_replica.read(lambda: fetch_row("SELECT pg_backend_pid()", []))

        def lose_connection() -> int:
            if fetch_row("SELECT pg_backend_pid()", []) == backend:
                replica.execute("SELECT pg_terminate_backend(%s, 5000)", backend)
            return number_of_users()

        assert read_replica.read(lose_connection) == 0
        assert read_replica.read(number_of_users) == 0
    assert recorded.total("auth_replica_skips_total", reason="unavailable") == 1
    assert [record.message for record in caplog.records] == ["read replica skipped"]


def test_a_replica_that_refuses_connections_is_skipped(replica: Any, caplog: pytest.LogCaptureFixture) -> None:
    connections.settings[FIRST] |= {"PORT": "1", "PASSWORD": "hunter2"}
    with read_replica.permit():
        assert read_replica.read(number_of_users) == 0
    [record] = caplog.records
    assert "hunter2" not in str(vars(record))


def test_an_exceeded_time_limit_is_not_repeated_on_the_primary(replica: Any) -> None:
    def slow() -> None:
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 50")
            cursor.execute("SELECT pg_sleep(10)")

    with read_replica.permit():
        with pytest.raises(OperationalError, match="statement timeout"):
            read_replica.read(slow)
        assert read_replica.within_timeout(slow) is None
        assert read_replica.read(number_of_users) == 1


def test_lists_of_the_api_read_the_replica_unless_the_client_asks_for_current_data(replica: Any, api: Api) -> None:
    factories.make_user(email="p@example.com")
    assert emails(api) == ["r@example.com"]
    assert emails(api, **{"Cache-Control": "max-age=0, No-Cache"}) == ["p@example.com"]
    assert emails(api, "/admin/users?email=p@example.com") == ["p@example.com"]
    assert ask(api, "GET", "/admin/audit").json() == []


def test_metrics_of_the_installation_read_the_replica(replica: Any, clock: Clock) -> None:
    def failed_jobs() -> float:
        samples = [sample for family in QueueCollector().collect() for sample in family.samples]
        return next(sample.value for sample in samples if sample.labels.get("state") == "failed")

    replica.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, status) VALUES (%s, 'task', 'failed')",
        [registry.queue()],
    )
    assert failed_jobs() == 1
    replica.execute("DELETE FROM procrastinate_workers")
    clock.now += 1
    assert failed_jobs() == 0
    assert "auth_webhook_pending" in {family.name for family in BacklogCollector().collect()}


def test_an_operator_sees_own_changes(replica: Any, inside: Console, operator: User) -> None:
    factories.make_user(email="p@example.com")
    inside.client.cookies.pop("operator_changed")  # of the sign-in
    assert "r@example.com" in inside.text(USERS)
    exported = inside.submit(START, to=f"{USERS}export/")
    assert b"r@example.com" in b"".join(exported.streaming_content)  # type: ignore[attr-defined]
    assert "operator_changed" not in inside.client.cookies

    inside.submit(page_of(operator), to=USERS, action="no such action")
    cookie = inside.client.cookies["operator_changed"]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/operator/", True, "Strict")
    assert int(cookie["max-age"]) > read_replica.MAX_AGE_SECONDS
    assert "p@example.com" in inside.text(USERS)
    inside.client.cookies.pop("operator_changed")
    assert "r@example.com" in inside.text(USERS)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgres://u@b,c/auth", [("b", "5432"), ("c", "5432")]),
        ("postgres://u@b:5433,c/auth", [("b", "5433"), ("c", "5432")]),
        ("postgres://u@b,c/auth?port=5433", [("b", "5433"), ("c", "5433")]),
        ("postgres://u@b:5433/auth", [("b", "5433")]),
        ("postgres://u@b/auth", [("b", "")]),
        ("postgres://u@b,c/auth?hostaddr=10.0.0.1,10.0.0.2", [("b,c", ",")]),
    ],
)
def test_each_server_of_the_url_is_a_replica(url: str, expected: list[tuple[str, str]]) -> None:
    database = dataclasses.replace(settings.AUTH.database, read_replica_url=conf.Secret(url))
    _, *entries = postgresql.databases(database).values()
    assert [(entry["HOST"], entry["PORT"]) for entry in entries] == expected
    assert {entry["OPTIONS"]["target_session_attrs"] for entry in entries} == {"any"}
