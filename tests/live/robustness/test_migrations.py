"""Migrations while other transactions use the tables, and after an interrupted migration."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.live import servers
from tests.live.robustness import conftest as robust

MIGRATE = (str(servers.PROJECT / "manage.py"), "migrate")


def applied(url: str) -> int:
    with psycopg.connect(url) as connection:
        exists = connection.execute("SELECT to_regclass('django_migrations')").fetchone()
    return robust.count(url, "django_migrations") if exists and exists[0] else 0


def launch(url: str, folder: Path, *arguments: str) -> servers.LiveServer:
    """Start a migration in the background, with the log in `folder`."""
    running = servers.LiveServer(folder=folder, database_url=url, command=(*MIGRATE, *arguments))
    running.launch()
    return running


def migrate(url: str, folder: Path, *arguments: str) -> None:
    done = launch(url, folder, *arguments)
    assert done.process.wait(robust.TIMEOUT_SECONDS) == 0, done.log.read_text()


def test_killed_migration_is_resumed(tmp_path: Path, empty_database_url: str) -> None:
    first = launch(empty_database_url, tmp_path)
    robust.wait_until(lambda: applied(empty_database_url) >= 25, "some applied migrations")
    first.kill()
    assert applied(empty_database_url) < 60
    migrate(empty_database_url, tmp_path)

    with psycopg.connect(empty_database_url) as connection:
        query = "SELECT count(*), count(DISTINCT (app, name)) FROM django_migrations"
        total, different = connection.execute(query).fetchone() or (0, 0)
        invalid = connection.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid").fetchone()
    assert total == different > 60
    assert invalid == (0,)


def test_migration_waits_for_table_without_blocking_readers(tmp_path: Path, empty_database_url: str) -> None:
    migrate(empty_database_url, tmp_path)
    migrate(empty_database_url, tmp_path, "accounts", "0003")

    with psycopg.connect(empty_database_url) as reader, psycopg.connect(empty_database_url, autocommit=True) as other:
        reader.execute("SELECT count(*) FROM users, mfa_factors")
        running = launch(empty_database_url, tmp_path)
        robust.wait_until(
            lambda: "waits for a table" in running.log.read_text(), "the migration to release its lock request"
        )
        # A later reader gets through although the first reader still holds its lock.
        other.execute("SELECT count(*) FROM users, mfa_factors")
        assert running.process.poll() is None
        reader.rollback()
        assert running.process.wait(robust.TIMEOUT_SECONDS) == 0
