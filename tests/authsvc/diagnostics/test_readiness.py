"""GET /health?ready=1: the conditions of readiness, its cost, and its time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
import requests
from django.conf import settings
from django.db import DatabaseError, connection, connections
from psycopg import sql

from authsvc.diagnostics import readiness
from authsvc.jobs import WorkerHealth, registry
from tests.conftest import Api
from tests.live import servers
from tests.timeouts import wait_until

READY = readiness.State({"database": {"ok": True}})


def insert_worker(*, seconds_ago: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE procrastinate_workers CASCADE")
        cursor.execute(
            "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - make_interval(secs => %s))",
            [seconds_ago],
        )


def insert_job(*, seconds_ago: float, queue: str = "") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, scheduled_at)"
            " VALUES (%s, 'x', now() - make_interval(secs => %s))",
            [queue or registry.queue(), seconds_ago],
        )


@pytest.fixture(autouse=True)
def _without_earlier_results(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(readiness, "shared_checks", readiness.Checks(readiness.read_state, limit_seconds=60))
    yield
    readiness.open_kept_connection().close()
    readiness.open_kept_connection.cache_clear()


@pytest.mark.django_db(transaction=True)
def test_a_process_with_a_migrated_database_and_a_worker_is_ready(api: Api) -> None:
    insert_worker(seconds_ago=1)
    response = api.get("/health?ready=1")

    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    payload = response.json()
    assert payload["ready"] is True
    assert {name: result["ok"] for name, result in payload["checks"].items()} == {
        "database": True,
        "migrations": True,
        "queue": True,
    }


@pytest.mark.parametrize(
    ("heartbeat", "due", "expected"),
    [
        pytest.param(1, 3600, True, id="long queue, running worker"),
        pytest.param(300, None, True, id="empty queue, no worker"),
        pytest.param(300, 10, True, id="new job, no worker"),
        pytest.param(300, 300, False, id="old job, no worker"),
        pytest.param(300, -300, True, id="scheduled job, no worker"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_the_queue_is_healthy_with_a_worker_or_without_due_jobs(
    api: Api, heartbeat: float, due: float | None, expected: bool
) -> None:
    """Servers are ready in any case: requests do not need the worker."""
    insert_worker(seconds_ago=heartbeat)
    insert_job(seconds_ago=3600, queue="of another installation")
    if due is not None:
        insert_job(seconds_ago=due)

    response = api.get("/health?ready=1")
    assert response.status_code == 200
    assert response.json()["checks"]["queue"]["ok"] is expected


@pytest.mark.django_db(transaction=True)
def test_a_process_is_not_ready_while_a_migration_is_missing(api: Api) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET name = 'x' || name WHERE app = 'tokens' AND name LIKE '0001%'")
    try:
        response = api.get("/health?ready=1")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_migrations SET name = substr(name, 2) WHERE name LIKE 'x0001%'")

    assert response.status_code == 503
    assert response.json()["checks"]["migrations"] == {"ok": False, "missing": 1}


@pytest.mark.django_db
def test_an_empty_database_lacks_every_migration(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as empty:
        name = empty.info.dbname
    other = connections.create_connection("default")
    other.settings_dict = {**other.settings_dict, "NAME": name}
    try:
        with other.cursor() as cursor:
            missing = readiness.missing_migrations(cursor)
    finally:
        other.close()
    assert ("tokens", "0001_tables") in missing
    assert {"accounts", "procrastinate", "mailer", "core", "auth"} <= {app for app, _ in missing}


def test_missing_workers_are_unhealthy_only_while_a_job_waits() -> None:
    assert WorkerHealth(heartbeat_age=None, job_delay=None).is_healthy
    assert not WorkerHealth(heartbeat_age=None, job_delay=61).is_healthy


@pytest.mark.parametrize("query", ["", "?ready=0", "?ready=", "?other=1"])
def test_health_without_ready_uses_no_database(api: Api, query: str) -> None:
    assert api.get(f"/health{query}").json()["name"] == "authsvc"


def test_an_unreachable_database_is_reported_without_its_address() -> None:
    def read_state() -> readiness.State:
        raise DatabaseError("connection to server at 10.0.0.1 failed for user auth password hidden")

    assert readiness.Checks(read_state).state().payload == {
        "ready": False,
        "checks": {"database": {"ok": False}, "migrations": {"ok": False}, "queue": {"ok": False}},
    }


def test_a_result_is_reused_for_a_short_time() -> None:
    looks: list[float] = []

    def read_state() -> readiness.State:
        looks.append(time.monotonic())
        return READY

    checks = readiness.Checks(read_state)
    assert [checks.state().is_ready for _ in range(50)] == [True] * 50
    span = looks[-1] - looks[0]
    assert len(looks) <= 1 + span / readiness.KEPT_SECONDS


def test_a_hanging_database_is_queried_once_and_awaited_up_to_the_limit() -> None:
    looks: list[int] = []
    responses = threading.Event()

    def read_state() -> readiness.State:
        looks.append(1)
        responses.wait(60)
        return READY

    checks = readiness.Checks(read_state, limit_seconds=0.05)
    assert [checks.state().is_ready for _ in range(5)] == [False] * 5
    assert looks == [1]

    responses.set()
    wait_until(lambda: checks.state().is_ready, "readiness")


@pytest.mark.django_db(transaction=True)
def test_a_connection_is_kept_until_its_server_becomes_read_only() -> None:
    readiness.read_state()
    kept = readiness.open_kept_connection()
    first = kept.connection
    readiness.read_state()
    assert kept.connection is first

    with kept.cursor() as cursor:
        # As the server sets it in every session, when its operator changes the default.
        cursor.execute("SET default_transaction_read_only = on")
    readiness.read_state()
    assert kept.connection is not first


@pytest.mark.django_db(transaction=True)
def test_a_process_is_not_ready_while_the_database_is_read_only(api: Api) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        (name,) = cursor.fetchone()
        cursor.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    try:
        response = api.get("/health?ready=1")
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    assert (response.status_code, response.json()["checks"]["database"]["ok"]) == (503, False)


def test_a_database_that_refuses_new_connections_leaves_a_server_ready(
    serve: Callable[..., servers.LiveServer],
) -> None:
    running = serve(WEB_CONCURRENCY="1")
    url = f"{running.url}/health?ready=1"
    assert requests.get(url, timeout=60).status_code == 200

    name = psycopg.conninfo.conninfo_to_dict(running.database_url)["dbname"]
    refuse = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(str(name)))
    with psycopg.connect(servers.server_url(), autocommit=True) as admin:
        admin.execute(refuse)
    with pytest.raises(psycopg.OperationalError, match="not currently accepting"):
        psycopg.connect(running.database_url)
    time.sleep(readiness.KEPT_SECONDS)
    assert requests.get(url, timeout=60).status_code == 200


def test_a_server_is_ready_once_it_responds(serve: Callable[..., servers.LiveServer]) -> None:
    running = serve()
    response = requests.get(f"{running.url}/health?ready=1", timeout=60)
    assert (response.status_code, response.json()["ready"]) == (200, True)
    assert settings.AUTH.database.url.reveal() not in response.text
