"""The index worker on a real PostgreSQL: what it builds, when it does not, and what it makes of an interrupted build.

It needs a server with the extension pg_trgm, which the embedded one lacks: that of `DATABASE_URL`, or Debian's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

from accounts.models import User
from accounts.users.search import indexes, queries, words
from accounts.users.search.filters import UserFilter
from authsvc.conf import Secret
from authsvc.db import advisory_locks, postgresql
from authsvc.db.sql import namespaced
from authsvc.jobs import registry
from tests import debian_postgresql, factories
from tests.conftest import ChangeConfig
from tests.live.servers import LiveServer
from tests.performance import crowd

pytestmark = pytest.mark.django_db

NAMES = {"users_email_search_idx", "users_full_name_search_idx", "users_words_search_idx"}
EMAIL_INDEX = "CREATE INDEX CONCURRENTLY users_email_search_idx ON users USING gin (email {schema}.gin_trgm_ops)"


def query_column(statement: str) -> list[Any]:
    """The first column of what a statement returns."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()] if cursor.description else []


def valid_indexes() -> set[str]:
    return set(
        query_column(
            "SELECT relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE relname LIKE 'users%_search_idx' AND indisvalid"
        )
    )


def drop_all() -> None:
    for name in NAMES:
        query_column(f"DROP INDEX IF EXISTS {name}")
    query_column("DROP EXTENSION IF EXISTS pg_trgm")
    query_column("DROP SCHEMA IF EXISTS elsewhere")


@pytest.fixture(scope="module", autouse=True)
def server_with_trigrams(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        if query_column("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'"):
            yield
            return
        programs = debian_postgresql.binaries("pg_trgm")
        if programs is None:
            pytest.skip("neither this PostgreSQL nor one of Debian has pg_trgm")
        with debian_postgresql.running(programs) as url, connected_to(**connection_settings(url)):
            call_command("migrate", verbosity=0)
            yield


def connection_settings(url: str) -> dict[str, Any]:
    there = postgresql.settings_from(dataclasses.replace(settings.AUTH.database, url=Secret(url)))
    return {name: there[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}


@contextlib.contextmanager
def connected_to(**connection_settings: Any) -> Iterator[None]:
    """Let every new connection of this process lead to another server or database."""
    known = connection.settings_dict
    before = dict(known)
    connection.close()
    known.update(connection_settings)
    try:
        yield
    finally:
        connection.close()
        known.update(before)


@pytest.fixture
def trigrams() -> Iterator[None]:
    drop_all()
    yield
    drop_all()


@pytest.fixture
def ensured(auth_config: ChangeConfig) -> None:
    auth_config(index_worker={"ensure_user_search": True})


@pytest.mark.django_db(transaction=True)
def test_no_index_is_built_by_default(trigrams: None) -> None:
    indexes.ensure()
    assert valid_indexes() == set()


@pytest.mark.django_db(transaction=True)
def test_search_uses_indexes(trigrams: None, ensured: None) -> None:
    crowd.fill(connection.connection, 1, 5000)
    indexes.ensure()
    assert valid_indexes() == NAMES
    parts = UserFilter(aud="authenticated", text="keller.2711")
    beginnings = UserFilter(aud="authenticated", text="zq")
    for chosen, values in (queries.match_sql(parts), queries.restricted_match_sql(beginnings)):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {chosen}", values)
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert all(name in plan for name in NAMES - {words.INDEX}), plan
    for order in (("email", "pk"), ("-email", "-pk"), ("created_at", "pk"), ("-created_at", "-pk")):
        plan = User.objects.order_by(*order)[9_950:10_000].explain()
        assert "Sort" not in plan, plan
    for typed in ("keller 2711", "ann ke", "k"):
        plan = words.filter_matching(User.objects.all(), words.parse(typed)).values("pk").explain()
        assert words.INDEX in plan, plan


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("locale", "is_too_expensive"), [("C", True), ("C.UTF-8", False)])
def test_letters_outside_locale_are_not_indexed(locale: str, is_too_expensive: bool) -> None:
    queries.indexes_all_letters.cache_clear()
    query_column(f"CREATE DATABASE letters TEMPLATE template0 LC_COLLATE '{locale}' LC_CTYPE '{locale}'")
    try:
        with connected_to(NAME="letters"):
            query_column("CREATE EXTENSION pg_trgm")
            query_column(f"CREATE TABLE {namespaced('users')} AS SELECT generate_series(0, {queries.LARGE_TABLE})")
            query_column(f"ANALYZE {namespaced('users')}")
            assert (query_column("SELECT show_trgm('žřš')") == [[]]) == is_too_expensive
            assert queries.is_too_expensive(UserFilter(aud="", text="žřš")) == is_too_expensive
            assert not queries.is_too_expensive(UserFilter(aud="", text="žřšabc"))
    finally:
        queries.indexes_all_letters.cache_clear()
        query_column("DROP DATABASE letters")


@pytest.mark.django_db(transaction=True)
def test_second_run_keeps_indexes(trigrams: None, ensured: None) -> None:
    indexes.ensure()
    before = query_column("SELECT oid FROM pg_class WHERE relname LIKE 'users%_search_idx' ORDER BY 1")
    indexes.ensure()
    assert query_column("SELECT oid FROM pg_class WHERE relname LIKE 'users%_search_idx' ORDER BY 1") == before


@pytest.mark.django_db(transaction=True)
def test_the_extension_may_be_in_another_schema(trigrams: None, ensured: None) -> None:
    query_column("CREATE SCHEMA elsewhere")
    query_column("CREATE EXTENSION pg_trgm SCHEMA elsewhere")
    indexes.ensure()
    assert valid_indexes() == NAMES


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("most", "expected"), [(9, set()), (10, NAMES)])
def test_table_above_threshold_is_not_indexed(
    trigrams: None, auth_config: ChangeConfig, most: int, expected: set[str]
) -> None:
    for _ in range(10):
        factories.make_user()
    query_column("VACUUM ANALYZE users")
    auth_config(index_worker={"max_users": most})
    indexes.ensure()
    assert valid_indexes() == expected


@pytest.mark.django_db(transaction=True)
def test_one_process_builds_at_a_time(trigrams: None, ensured: None) -> None:
    with advisory_locks.hold_lock("search indexes of users"):
        indexes.ensure()
        assert valid_indexes() == set()
    indexes.ensure()
    assert valid_indexes() == NAMES


@pytest.mark.django_db(transaction=True)
def test_other_processes_check_soon_whether_the_builder_has_ended(trigrams: None, ensured: None) -> None:
    loop = registry.worker_loops["accounts.users.search.indexes"]
    with advisory_locks.hold_lock("search indexes of users"):
        loop.function()
        assert loop.interval() <= timedelta(minutes=1)
    loop.function()
    assert valid_indexes() == NAMES
    assert loop.interval() == timedelta(hours=1)


@pytest.mark.django_db(transaction=True)
def test_interrupted_build_is_repeated(trigrams: None, ensured: None) -> None:
    query_column("CREATE EXTENSION pg_trgm")
    with blocked_build(EMAIL_INDEX.format(schema="public")) as kill:
        assert not indexes.ensure()
        assert valid_indexes() == set(), "the build of another connection was not respected"
        kill()
    assert query_column("SELECT indisvalid FROM pg_index WHERE indexrelid = 'users_email_search_idx'::regclass") == [
        False
    ]
    indexes.ensure()
    assert valid_indexes() == NAMES


@pytest.mark.django_db(transaction=True)
def test_limits_of_the_role_do_not_end_a_build(trigrams: None, ensured: None) -> None:
    limits = {"options": "-c lock_timeout=200ms -c statement_timeout=300ms"}
    with connected_to(OPTIONS={**connection.settings_dict["OPTIONS"], **limits}), ThreadPoolExecutor() as threads:
        writing = connections.create_connection("default")
        writing.set_autocommit(autocommit=False)
        with writing.cursor() as cursor:
            cursor.execute("LOCK TABLE users IN ROW EXCLUSIVE MODE")
        try:
            build = threads.submit(indexes.ensure)
            time.sleep(0.5)
        finally:
            writing.close()
        assert build.result()
    assert valid_indexes() == NAMES


@pytest.mark.django_db(transaction=True)
def test_failure_is_logged_only(trigrams: None, ensured: None, caplog: pytest.LogCaptureFixture) -> None:
    query_column("ALTER TABLE users RENAME TO hidden")
    try:
        with caplog.at_level(logging.WARNING):
            indexes.ensure()
    finally:
        query_column("ALTER TABLE hidden RENAME TO users")
    assert [record.getMessage() for record in caplog.records] == ["search indexes not built"]


@pytest.mark.django_db(transaction=True)
def test_servers_sharing_database_build_own_indexes(trigrams: None, tmp_path: Path, empty_database_url: str) -> None:
    env = {"AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST": "true", "WEB_CONCURRENCY": "1"}
    with contextlib.ExitStack() as started:
        servers = [
            LiveServer(folder=tmp_path, database_url=empty_database_url, env={**env, "AUTH_DB_NAMESPACE": namespace})
            for namespace in ("", "svc")
        ]
        for server in servers:
            server.launch()
            started.callback(server.kill)
        expected = {f"{prefix}{name}" for prefix in ("", "svc_") for name in NAMES}
        deadline = time.monotonic() + 60
        with psycopg.connect(empty_database_url, autocommit=True) as other:
            while time.monotonic() < deadline:
                rows = other.execute(
                    "SELECT relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                    " WHERE relname LIKE '%users%_search_idx' AND indisvalid"
                ).fetchall()
                if {name for (name,) in rows} == expected:
                    return
                time.sleep(0.2)
    pytest.fail(f"only {rows} were built")


@contextlib.contextmanager
def blocked_build(statement: str) -> Iterator[Callable[[], None]]:
    """Run a statement on another connection, where it waits for an open transaction; `kill()` ends both."""
    holding, building = (connections.create_connection("default") for _ in range(2))
    holding.set_autocommit(autocommit=False)
    with holding.cursor() as cursor:
        cursor.execute("LOCK TABLE users IN ROW EXCLUSIVE MODE")
    with building.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()

    def run() -> None:
        with contextlib.suppress(Exception), building.cursor() as cursor:
            cursor.execute(statement)

    building.inc_thread_sharing()
    thread = threading.Thread(target=run)
    thread.start()

    def kill() -> None:
        query_column(f"SELECT pg_terminate_backend({pid}, 10000)")
        thread.join()
        holding.rollback()

    try:
        while not query_column("SELECT 1 FROM pg_stat_progress_create_index WHERE datname = current_database()"):
            time.sleep(0.05)
        yield kill
    finally:
        thread.join()
        holding.close()
        building.close()
