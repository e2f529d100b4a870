"""PostgreSQL dies under load and comes back: requests fail quickly meanwhile, and nothing that was promised is lost."""

from __future__ import annotations

import shutil
import signal
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
from tests.live import servers
from tests.live.clients.postbox import Postbox
from tests.live.robustness import conftest as robust

PEOPLE = 6
"""Who sign up at the same time, each one address after the other."""


class Cluster:
    """A PostgreSQL of this test alone, as durable as in production, that can be killed and started again."""

    def __init__(self) -> None:
        # Not pytest's folder: a socket's path must be short, or it changes with every start.
        self._folder = Path(tempfile.mkdtemp(prefix="authsvc-outage-"))
        self.url = embedded.start(self._folder)

    def die(self, number: signal.Signals) -> None:
        """Send the signal to the server process and return when it and its children have gone."""
        lock = self._folder / "data" / "postmaster.pid"
        server = psutil.Process(int(lock.read_text().split()[0]))
        everybody = [server, *server.children(recursive=True)]
        server.send_signal(number)
        robust.wait_until(lambda: robust.are_gone(everybody), "PostgreSQL is gone")
        # Where dead orphans are collected late or never, as in many a container, the id in these files stays in use.
        for left_behind in (lock, self._folder / f".s.PGSQL.{embedded.PORT}.lock"):
            left_behind.unlink(missing_ok=True)

    def come_back(self) -> None:
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
    answer: requests.Response | None

    @property
    def succeeded(self) -> bool:
        return self.answer is not None and self.answer.status_code == 200


@dataclass
class Load:
    """Sign-ups without a pause until told to stop, and what became of them."""

    server: servers.LiveServer
    attempts: list[Attempt] = field(default_factory=list)
    has_ended: threading.Event = field(default_factory=threading.Event)

    def sign_up(self, person: int) -> None:
        number = 0
        while not self.has_ended.is_set():
            number += 1
            email = f"person{person}.{number}@example.com"
            begun = time.monotonic()
            attempt = Attempt(email=email, begun=begun, answer=robust.sign_up(self.server, email))
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
    """Rows of every table but those that live workers write all the time."""
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE 'procrastinate%'"
    with psycopg.connect(url) as connection:
        tables = [table for (table,) in connection.execute(query).fetchall()]
    return {table: robust.count(url, table) for table in tables}


# SIGQUIT is what `pg_ctl stop -m immediate` sends.
@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGKILL])
@pytest.mark.timeout(300)
def test_the_server_goes_on_when_postgresql_is_killed_and_started_again(
    number: signal.Signals, tmp_path: Path, cluster: Cluster, post: Postbox
) -> None:
    with servers.LiveServer(folder=tmp_path, database_url=cluster.url, env=robust.settings_for(post)) as server:
        load = Load(server)
        people = [threading.Thread(target=load.sign_up, args=(person,)) for person in range(PEOPLE)]
        for person in people:
            person.start()
        try:
            robust.wait_until(lambda: successes(load.since(0)) > 2 * PEOPLE, "everybody has signed up")
            cluster.die(number)
            gone = time.monotonic()
            robust.wait_until(lambda: len(load.since(gone)) > 5 * PEOPLE, "requests are answered during the outage")
            cluster.come_back()
            back = time.monotonic()
            robust.wait_until(lambda: successes(load.since(back)) > 4 * PEOPLE, "sign-ups succeed again")
        finally:
            load.has_ended.set()
            for person in people:
                person.join()

        refusals = [attempt.answer for attempt in load.attempts if not attempt.succeeded]
        assert refusals != []
        for refusal in refusals:
            assert refusal is not None
            assert refusal.status_code >= 500
            assert refusal.headers["Content-Type"].startswith("application/json"), refusal.text
            assert refusal.json().keys() >= {"code", "error_code", "msg"}
        assert successes(load.since(back)) == len(load.since(back))

        promised = {attempt.email for attempt in load.attempts if attempt.succeeded}
        assert promised <= emails(cluster.url)
        robust.wait_until(lambda: promised <= robust.message_ids(post.smtp).keys(), "all promised letters have come")
        robust.wait_until(lambda: robust.count(cluster.url, "procrastinate_jobs") == 0, "an empty queue")
        assert server.stop() == 0
    assert [ids for ids in robust.message_ids(post.smtp).values() if len(set(ids)) > 1] == []


def test_connections_that_went_stale_unused_cost_nobody_an_answer(
    tmp_path: Path, cluster: Cluster, post: Postbox
) -> None:
    with servers.LiveServer(folder=tmp_path, database_url=cluster.url, env=robust.settings_for(post)) as server:
        token = robust.sign_up_to_sign_in(server, post, "ada@example.com")

        def ask(_: int) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return requests.get(f"{server.url}/user", headers=headers, timeout=robust.PATIENCE_SECONDS).status_code

        with ThreadPoolExecutor(16) as people:
            assert set(people.map(ask, range(200))) == {200}  # every serving thread has its connection now
            before = sizes(cluster.url)
            cluster.die(signal.SIGKILL)
            cluster.come_back()
            # Limits are counted in a table that PostgreSQL empties after a crash.
            assert sizes(cluster.url) == before | {"rate_limits": 0} != before
            assert set(people.map(ask, range(200))) == {200}
