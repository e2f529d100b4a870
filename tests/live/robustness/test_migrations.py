"""Migrations while other transactions use the tables, and after an interrupted migration."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.live import servers
from tests.timeouts import TIMEOUT_SECONDS, wait_until

MIGRATE = (str(servers.PROJECT / "manage.py"), "migrate")
SLEEP_IN_MIGRATION = """
    CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
    CREATE TRIGGER sleep AFTER INSERT ON django_migrations
        FOR EACH ROW WHEN (NEW.id = 40) EXECUTE FUNCTION sleep()
"""
SLEEPING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


def applied(url: str) -> int:
    with psycopg.connect(url) as connection:
        exists = connection.execute("SELECT to_regclass('django_migrations')").fetchone()
    return servers.count_rows(url, "django_migrations") if exists and exists[0] else 0


def launch(url: str, folder: Path, *arguments: str) -> servers.LiveServer:
    """Start a migration in the background, with the log in `folder`."""
    running = servers.LiveServer(folder=folder, database_url=url, command=(*MIGRATE, *arguments))
    running.launch()
    return running


def migrate(url: str, folder: Path, *arguments: str) -> None:
    done = launch(url, folder, *arguments)
    assert done.process.wait(TIMEOUT_SECONDS) == 0, done.log.read_text()


def test_killed_migration_is_resumed(tmp_path: Path, empty_database_url: str) -> None:
    migrate(empty_database_url, tmp_path, "contenttypes")
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(SLEEP_IN_MIGRATION)
        killed = launch(empty_database_url, tmp_path)
        wait_until(lambda: connection.execute(SLEEPING).rowcount, "the migration to sleep")
        killed.kill()
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({SLEEPING}) sleeping")
        wait_until(lambda: not connection.execute(SLEEPING).rowcount, "its connection to end")
        connection.execute("DROP FUNCTION sleep CASCADE")
    assert 20 < applied(empty_database_url) < 60
    migrate(empty_database_url, tmp_path)

    with psycopg.connect(empty_database_url) as connection:
        query = "SELECT count(*), count(DISTINCT (app, name)) FROM django_migrations"
        total, different = connection.execute(query).fetchone() or (0, 0)
        invalid = connection.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid").fetchone()
    assert total == different > 60
    assert invalid == (0,)


def test_migration_waits_for_table_without_blocking_readers(tmp_path: Path, fresh_database_url: str) -> None:
    migrate(fresh_database_url, tmp_path, "accounts", "0003")

    with psycopg.connect(fresh_database_url) as reader, psycopg.connect(fresh_database_url, autocommit=True) as other:
        reader.execute("SELECT count(*) FROM users, mfa_factors")
        running = launch(fresh_database_url, tmp_path)
        wait_until(lambda: "waits for a table" in running.log.read_text(), "the migration to release its lock request")
        # A later reader gets through although the first reader still holds its lock.
        other.execute("SELECT count(*) FROM users, mfa_factors")
        assert running.process.poll() is None
        reader.rollback()
        assert running.process.wait(TIMEOUT_SECONDS) == 0
