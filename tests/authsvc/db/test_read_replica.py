"""Reads from a replica. A second database with other rows plays its part, so that each test sees which one was read."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, InternalError, OperationalError, connections, transaction

from accounts.models import User
from authsvc import conf
from authsvc.db import postgresql, read_replica
from authsvc.db.sql import fetch_row
from tests import factories
from tests.accounts.administration.admin_requests import ask
from tests.authsvc.console import conftest as console_pages
from tests.authsvc.console.conftest import START, USERS, Console, page_of
from tests.conftest import Api, ChangeConfig
from tests.recorded_metrics import RecordedMetrics

inside, console, operator = console_pages.inside, console_pages.console, console_pages.operator
pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/users?page=1"
HEARTBEAT = "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - %s * interval '1 second')"


@pytest.fixture
def replica(
    transactional_db: None, fresh_database_url: str, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the replica, which has one user."""
    caplog.set_level(logging.WARNING, logger=read_replica.__name__)
    auth_config(database={"read_replica_url": conf.Secret(fresh_database_url)})
    entries = postgresql.databases(settings.AUTH.database)
    connections.settings[postgresql.REPLICA_ALIAS] = connections.configure_settings(entries)[postgresql.REPLICA_ALIAS]
    read_replica._State.skipped_until = read_replica._State.checked_until = 0
    try:
        with psycopg.connect(fresh_database_url, autocommit=True) as opened:
            opened.execute(HEARTBEAT, [1])
            opened.execute(
                "INSERT INTO users (id, email, aud) VALUES (gen_random_uuid(), 'r@example.com', 'authenticated')"
            )
            yield opened
    finally:
        close_connections()
        del connections.settings[postgresql.REPLICA_ALIAS]


def close_connections() -> None:
    while read_replica._idle:
        read_replica._idle.pop().close()


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
    replica: Any, recorded: RecordedMetrics, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    replica.execute(change)
    with read_replica.permit():
        assert [read_replica.read(number_of_users) for _ in range(3)] == [0, 0, 0]
        assert recorded.total("auth_replica_skips_total", reason="outdated") == 1
        [record] = caplog.records
        assert record.message == "read replica skipped"

        replica.execute(HEARTBEAT, [0])
        assert read_replica.read(number_of_users) == 0
        read_replica._State.skipped_until = 0
        assert read_replica.read(number_of_users) == 1


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
    connections.settings[postgresql.REPLICA_ALIAS] |= {"PORT": "1", "PASSWORD": "hunter2"}
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


def test_the_url_chooses_among_replicas() -> None:
    database = dataclasses.replace(settings.AUTH.database, read_replica_url=conf.Secret("postgres://u@b,c/auth"))
    options = postgresql.databases(database)[postgresql.REPLICA_ALIAS]["OPTIONS"]
    assert options["load_balance_hosts"] == "random"
    assert options["target_session_attrs"] == "prefer-standby"
