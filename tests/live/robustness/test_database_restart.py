"""PostgreSQL is killed under load and restarted: requests fail fast meanwhile, and no accepted sign-up is lost."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
import pytest
import requests

from authsvc.db import embedded
from tests.live import servers, sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.processes import are_gone
from tests.timeouts import TIMEOUT_SECONDS, wait_until

CLIENTS = 6
"""Number of concurrent clients; each signs up one address after the other."""


class Cluster:
    """A PostgreSQL for one test, with production durability, that can be killed and restarted."""

    def __init__(self) -> None:
        # Socket paths have a length limit; pytest's directories exceed it or change with every start.
        self._folder = Path(tempfile.mkdtemp(prefix="authsvc-outage-"))
        self.url = embedded.start(self._folder)

    def kill(self) -> None:
        """Kill the server process and wait until it and its children are gone."""
        lock = self._folder / "data" / "postmaster.pid"
        server = psutil.Process(int(lock.read_text().split()[0]))
        processes = [server, *server.children(recursive=True)]
        server.kill()
        wait_until(lambda: are_gone(processes), "PostgreSQL to exit")
        # In containers without a reaping init process, zombies keep the process IDs in these files in use.
        for stale_lock in (lock, self._folder / f".s.PGSQL.{embedded.PORT}.lock"):
            stale_lock.unlink(missing_ok=True)

    def restart(self) -> None:
        embedded.stop(self._folder)
        assert embedded.start(self._folder) == self.url

    def remove(self) -> None:
        embedded.stop(self._folder)
        shutil.rmtree(self._folder)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    running = Cluster()
    yield running
    running.remove()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    email: str
    begun: float
    response: requests.Response | None

    @property
    def succeeded(self) -> bool:
        return self.response is not None and self.response.status_code == 200


@dataclass
class Load:
    """Continuous sign-ups until stopped, with their results."""

    server: servers.LiveServer
    attempts: list[Attempt] = field(default_factory=list)
    has_ended: threading.Event = field(default_factory=threading.Event)

    def sign_up(self, client: int) -> None:
        number = 0
        while not self.has_ended.is_set():
            number += 1
            email = f"client{client}.{number}@example.com"
            begun = time.monotonic()
            attempt = Attempt(email=email, begun=begun, response=sign_ups.sign_up(self.server, email))
            self.attempts.append(attempt)
            if not attempt.succeeded:
                time.sleep(0.1)

    def since(self, begun: float) -> list[Attempt]:
        return [attempt for attempt in list(self.attempts) if attempt.begun > begun]


def successes(attempts: list[Attempt]) -> int:
    return sum(attempt.succeeded for attempt in attempts)


def emails(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {email for (email,) in connection.execute("SELECT email FROM users").fetchall()}


def sizes(url: str) -> dict[str, int]:
    """Row counts of every table, except tables that workers update continuously."""
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE 'procrastinate%'"
    with psycopg.connect(url) as connection:
        tables = [table for (table,) in connection.execute(query).fetchall()]
    return {table: servers.count_rows(url, table) for table in tables}


def test_server_recovers_after_postgresql_restart(tmp_path: Path, cluster: Cluster, mailbox: MailboxServer) -> None:
    with servers.LiveServer(folder=tmp_path, database_url=cluster.url, env=sign_ups.settings_for(mailbox)) as server:
        load = Load(server)
        threads = [threading.Thread(target=load.sign_up, args=(client,)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: successes(load.since(0)) > 2 * CLIENTS, "sign-ups by every client")
            cluster.kill()
            gone = time.monotonic()
            wait_until(lambda: len(load.since(gone)) > 5 * CLIENTS, "responses during the outage")
            cluster.restart()
            back = time.monotonic()
            wait_until(lambda: successes(load.since(back)) > 4 * CLIENTS, "successful sign-ups after the restart")
        finally:
            load.has_ended.set()
            for thread in threads:
                thread.join()

        failures = [attempt.response for attempt in load.attempts if not attempt.succeeded]
        assert failures != []
        for failure in failures:
            assert failure is not None
            assert failure.status_code >= 500
            assert failure.headers["Content-Type"].startswith("application/json"), failure.text
            assert failure.json().keys() >= {"code", "error_code", "msg"}
        assert successes(load.since(back)) == len(load.since(back))

        accepted = {attempt.email for attempt in load.attempts if attempt.succeeded}
        assert accepted <= emails(cluster.url)
        wait_until(lambda: accepted <= mailbox.smtp.message_ids().keys(), "delivery of all accepted emails")
        wait_until(lambda: servers.count_rows(cluster.url, "procrastinate_jobs") == 0, "an empty queue")
        assert server.stop() == 0
    assert [ids for ids in mailbox.smtp.message_ids().values() if len(set(ids)) > 1] == []


def test_stale_idle_connections_fail_no_request(tmp_path: Path, cluster: Cluster, mailbox: MailboxServer) -> None:
    with servers.LiveServer(folder=tmp_path, database_url=cluster.url, env=sign_ups.settings_for(mailbox)) as server:
        token = sign_ups.sign_up_to_sign_in(server, mailbox, "ada@example.com")

        def ask(_: int) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return requests.get(f"{server.url}/user", headers=headers, timeout=TIMEOUT_SECONDS).status_code

        with ThreadPoolExecutor(16) as pool:
            assert set(pool.map(ask, range(200))) == {200}  # every serving thread now has a connection
            before = sizes(cluster.url)
            cluster.kill()
            cluster.restart()
            # PostgreSQL empties the unlogged table of rate limits after a crash.
            assert sizes(cluster.url) == before | {"rate_limits": 0} != before
            assert set(pool.map(ask, range(200))) == {200}
