"""Connections: settings from the URL, and health checks."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InternalError, OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from authsvc import conf
from authsvc.api.exception_handler import is_unavailable
from authsvc.db import postgresql
from authsvc.db.postgresql import response_timeout
from authsvc.db.postgresql.base import DatabaseWrapper
from tests.conftest import ChangeConfig
from tests.live.servers import server_url


def settings_of(url: str, **fields: Any) -> dict[str, Any]:
    return postgresql.settings_from(conf.Database(driver="postgres", url=conf.Secret(url), **fields))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgres://u:p%40ss@db:6432/auth",
            {"NAME": "auth", "USER": "u", "PASSWORD": "p@ss", "HOST": "db", "PORT": "6432"},
        ),
        ("postgresql:///auth?host=/run/pg&user=u", {"NAME": "auth", "USER": "u", "HOST": "/run/pg", "PORT": ""}),
        ("postgres://u@one:1,two:2/auth", {"HOST": "one,two", "PORT": "1,2"}),
        ("postgres://auth@db", {"NAME": "auth", "USER": "auth"}),
        ("embedded:/srv/pg", {"NAME": "postgres", "USER": "authsvc", "HOST": "embedded:/srv/pg"}),
    ],
)
def test_url_becomes_django_settings(url: str, expected: dict[str, str]) -> None:
    assert settings_of(url).items() >= expected.items()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sslmode=verify-full&sslrootcert=/ca.pem", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("application_name=mine&connect_timeout=3", {"application_name": "mine", "connect_timeout": "3"}),
        ("options=-c%20statement_timeout%3D5s", {"options": "-c statement_timeout=5s"}),
        ("search_path=auth,%20public", {"options": "-c search_path=auth,\\ public"}),
        ("search_path=auth&options=-c%20jit%3Doff", {"options": "-c jit=off -c search_path=auth"}),
        ("application_name=a%20b+c", {"application_name": "a b+c"}),
        ("host=a,b", {"target_session_attrs": "read-write", "connect_timeout": "2", "tcp_user_timeout": "4000"}),
        (
            "host=a,b&target_session_attrs=any&connect_timeout=9",
            {"target_session_attrs": "any", "connect_timeout": "9"},
        ),
        ("", {"application_name": "authsvc", "server_side_binding": True, "prepare_threshold": 1}),
    ],
)
def test_query_parameters_become_connection_options(query: str, expected: dict[str, Any]) -> None:
    assert settings_of(f"postgres://u@db/auth?{query}")["OPTIONS"].items() >= expected.items()


def test_prepared_statements_and_cursors_are_off_behind_a_pooler() -> None:
    pooled = settings_of("postgres://u@db/auth", prepared_statements_enabled=False)

    assert pooled["OPTIONS"]["prepare_threshold"] is None
    assert pooled["DISABLE_SERVER_SIDE_CURSORS"] is True


@pytest.mark.parametrize("url", ["mysql://u:hidden@db/auth", "postgres://u:hidden@db/auth?no_such_item=1", "hidden"])
def test_an_invalid_url_is_rejected_without_quoting_it(url: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        settings_of(url)
    assert "hidden" not in str(raised.value)


def test_search_path_places_tables_in_a_schema() -> None:
    parameters = settings_of(f"{server_url()}&search_path=%22a%20b%22,public")
    with psycopg.connect(
        host=parameters["HOST"],
        port=parameters["PORT"],
        user=parameters["USER"],
        dbname=parameters["NAME"],
        options=parameters["OPTIONS"]["options"],
    ) as other:
        assert other.execute("SELECT current_setting('search_path')").fetchone() == ('"a b",public',)


@pytest.mark.django_db
def test_an_idle_connection_is_usable_without_a_statement() -> None:
    connection.ensure_connection()

    with CaptureQueriesContext(connection) as statements:
        assert connection.is_usable()
    assert len(statements) == 0


@pytest.mark.django_db
def test_a_connection_closed_by_the_server_is_unusable() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    other.close()

    assert not connection.is_usable()
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_connection_is_replaced_once_its_server_is_read_only() -> None:
    with connection.cursor() as cursor:
        # As the server sets it in every session, when its operator changes the default.
        cursor.execute("SET default_transaction_read_only = on")
        with pytest.raises(InternalError, match="read-only transaction"):
            cursor.execute("DELETE FROM users")
    connection.close_if_unusable_or_obsolete()
    assert connection.connection is None
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM users")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("has_sessions", "expected"), [(True, ("40s", "5s")), (False, ("0", "0"))])
def test_the_server_ends_the_transactions_of_a_process_that_is_frozen_or_gone(
    auth_config: ChangeConfig, has_sessions: bool, expected: tuple[str, str]
) -> None:
    auth_config(database={"transaction_pooling_enabled": not has_sessions})
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('idle_in_transaction_session_timeout'),"
            " current_setting('client_connection_check_interval')"
        )
        assert cursor.fetchone() == expected
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_defaults_of_the_database_do_not_apply() -> None:
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    defaults = {"default_transaction_isolation": "'repeatable read'", "datestyle": "'German, DMY'"}
    with connection.cursor() as cursor:
        for setting, value in defaults.items():
            cursor.execute(f"ALTER DATABASE {name} SET {setting} = {value}")
    connection.close()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('transaction_isolation'), '2026-02-01 00:00+00'::timestamptz")
            assert cursor.fetchone() == ("read committed", datetime(2026, 2, 1, tzinfo=UTC))
    finally:
        with connection.cursor() as cursor:
            for setting in defaults:
                cursor.execute(f"ALTER DATABASE {name} RESET {setting}")
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_the_server_has_ended_makes_a_request_repeatable() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '50ms'")

    def run_slow_transaction() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            time.sleep(0.3)
            cursor.execute("SELECT 1")

    with pytest.raises(DatabaseError) as ended:
        run_slow_transaction()
    assert is_unavailable(ended.value)
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_idle_connections_are_replaced_after_a_response_timeout(auth_config: ChangeConfig) -> None:
    auth_config(api={"max_request_duration": timedelta(milliseconds=1)})

    def time_out() -> None:
        response_timeout.apply_to_request_thread()
        with pytest.raises(OperationalError, match="has not answered"), connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(5)")

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert connection.is_usable()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(time_out).result()
    assert not connection.is_usable()
    connection.close()
    connection.ensure_connection()
    assert connection.is_usable()


@pytest.mark.django_db
def test_connections_begin_with_the_server_that_answered_last() -> None:
    parameters = connection.get_connection_params()
    own = connections.settings["default"]
    # The kernel accepts connections, and nothing answers them, as on a frozen machine.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        entry = {
            **own,
            "HOST": f"127.0.0.1,{parameters['host']}",
            "PORT": f"{silent.getsockname()[1]},{parameters.get('port', 5432)}",
            "OPTIONS": {**own["OPTIONS"], "connect_timeout": "2"},
        }
        for _ in range(3):
            opened = DatabaseWrapper(entry, "default")
            with opened.cursor() as cursor:
                cursor.execute("SELECT 1")
            opened.close()
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.mark.django_db
def test_a_connection_with_pending_data_is_checked_by_a_statement() -> None:
    with connection.cursor() as cursor:
        cursor.execute("LISTEN news")
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("NOTIFY news")
    other.close()

    assert connection.is_usable()
