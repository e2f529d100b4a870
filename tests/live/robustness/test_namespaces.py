"""Installations in one database with separate tables, queues and emails."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.live import servers, sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.robustness.test_two_servers import migrations_applied
from tests.timeouts import TIMEOUT_SECONDS

PREFIXES = {"": "", "A": "a_", "b_": "b_"}
"""Namespace → table prefix."""
_DIGEST = re.compile(r"_[0-9a-f]{8}(?=(_uniq|_like)?$)")
EMAIL, LATER_EMAIL = "ada@example.com", "later@example.com"


class Installation:
    """One namespace with its own mail server."""

    def __init__(self, *, folder: Path, database_url: str, namespace: str, mailbox: MailboxServer) -> None:
        self.mailbox = mailbox
        self.prefix = PREFIXES[namespace]
        self._folder, self._database_url = folder, database_url
        self._env = {**sign_ups.settings_for(mailbox), "AUTH_DB_NAMESPACE": namespace, "WEB_CONCURRENCY": "1"}

    def server(self, **env: str) -> servers.LiveServer:
        return servers.LiveServer(folder=self._folder, database_url=self._database_url, env={**self._env, **env})


@pytest.fixture
def installations(tmp_path: Path, empty_database_url: str) -> Iterator[list[Installation]]:
    with contextlib.ExitStack() as mailboxes:
        yield [
            Installation(
                folder=tmp_path,
                database_url=empty_database_url,
                namespace=namespace,
                mailbox=mailboxes.enter_context(MailboxServer()),
            )
            for namespace in PREFIXES
        ]


def names(url: str, kinds: str) -> set[str]:
    """Relations of these `relkind`s, except those of the queue, which all namespaces share."""
    query = """
        SELECT relname FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind = ANY (%s) AND relname NOT LIKE '%%procrastinate%%'
    """
    with psycopg.connect(url) as connection:
        # Django's index names end in a digest of the table name, which includes the namespace.
        return {_DIGEST.sub("", name) for (name,) in connection.execute(query, [list(kinds)]).fetchall()}


def copies(installation: Installation) -> dict[str, int]:
    """Recipient → the number of received emails."""
    return {email: len(ids) for email, ids in installation.mailbox.smtp.message_ids().items()}


def waiting(url: str) -> list[str]:
    """Queues of the jobs that have not started."""
    with psycopg.connect(url) as connection:
        query = "SELECT queue_name FROM procrastinate_jobs WHERE status = 'todo' AND task_name = 'mailer.deliver'"
        return [queue for (queue,) in connection.execute(query).fetchall()]


def test_three_installations_share_one_database(empty_database_url: str, installations: list[Installation]) -> None:
    with contextlib.ExitStack() as running:
        started = [running.enter_context(one.server()) for one in installations]
        for one, server in zip(installations, started, strict=True):
            sign_ups.sign_up_to_sign_in(server, one.mailbox, EMAIL)
        assert [copies(one) for one in installations] == [{EMAIL: 1}] * 3
        assert [servers.count_rows(empty_database_url, f"{one.prefix}users") for one in installations] == [1] * 3
        assert all(migrations_applied(server) > 0 for server in started)

    everything = names(empty_database_url, "riS")
    plain = {name for name in everything if not name.startswith(("a_", "b_"))}
    assert plain >= {"users", "sessions", "django_migrations", "rate_limits", "message_attempts", "auth_group"}
    assert everything == {f"{one.prefix}{name}" for one in installations for name in plain}

    # Simulates a newer Procrastinate version that only the first installation has migrated to.
    forget = "DELETE FROM {} WHERE app = 'procrastinate' AND name >= '0035'"
    with psycopg.connect(empty_database_url) as connection:
        forgotten = connection.execute(sql.SQL(forget).format(sql.Identifier("a_django_migrations"))).rowcount
    assert forgotten > 0

    # A restart migrates nothing, and only the worker of the same installation sends an email.
    *others, last = installations
    with last.server(AUTH_MAILER_WORKER_ENABLED="false") as silent:
        assert migrations_applied(silent) == 0
        sign_ups.sign_up(silent, LATER_EMAIL)
        for one in others:
            with one.server() as server:
                assert migrations_applied(server) == 0
                sign_ups.sign_up_to_sign_in(server, one.mailbox, LATER_EMAIL)
        assert waiting(empty_database_url) == ["b_"]
        assert copies(last) == {EMAIL: 1}
    with last.server():
        last.mailbox.wait(LATER_EMAIL, seconds=TIMEOUT_SECONDS)
    assert [copies(one) for one in installations] == [{EMAIL: 1, LATER_EMAIL: 1}] * 3
    assert names(empty_database_url, "riS") == everything
