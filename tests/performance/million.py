"""Measures lists of a million users: `python -m tests.performance.million --database postgresql://…` (needs `wrk`).

Fills a new database on that server, or on a private one without trigram indexes, and serves it. Measures the
administration API and the console over HTTP, one request after the other, and drops the database at the end. The last
output is a table of all results. Takes about eight minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import psycopg
import requests

from authsvc.db import embedded
from tests.live.servers import PROJECT, LiveServer
from tests.performance import crowd
from tests.performance.bench import cpu_seconds
from tests.performance.crowd import Connection
from tests.settings import ENVIRONMENT

PASSWORD = "correct horse 1"
SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "authsvc.settings",
    "AUTH_LOG_LEVEL": "error",
    "AUTH_MAILER_AUTOCONFIRM": "true",
    "AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST": "true",
}
SMALL = 200
ROUNDS = 5


class Client:
    """One persistent connection that measures the milliseconds of each request."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        self._headers = headers

    def get(self, path: str) -> tuple[float, http.client.HTTPResponse, bytes]:
        begun = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        response = self._connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {body[:300]!r}")
        return (time.perf_counter() - begun) * 1000, response, body


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Cost of one type of request, in milliseconds."""

    name: str
    p50: float
    p95: float
    longest: float
    server: float
    """CPU time of the server's processes."""
    database: float
    """CPU time of the database connections; 0 for a database server on another machine."""
    goal: float
    """Upper limit of the 95th percentile."""
    note: str = ""

    def __str__(self) -> str:
        verdict = "" if self.p95 <= self.goal else "MISSED"
        times = (
            f"{self.p50:8.1f}{self.p95:8.1f}{self.longest:8.1f}{self.goal:7.0f}{self.server:9.2f}{self.database:8.2f}"
        )
        return f"{self.name:38}{times}  {verdict:7}{self.note}"


HEAD = f"{'ms':38}{'p50':>8}{'p95':>8}{'max':>8}{'goal':>7}{'CPU srv':>9}{'CPU db':>8}"


@dataclass(frozen=True, kw_only=True)
class Meter:
    """Measures requests to one server and stores the results."""

    server: LiveServer
    connection: Connection
    times: int
    results: list[Measurement] = field(default_factory=list)

    def measure(
        self, client: Client, name: str, path: Callable[[int], str], *, goal: float = 50, times: int = 0
    ) -> None:
        times = times or self.times
        client.get(path(0))
        server, database = cpu_seconds(self.server.process.pid), self._database()
        durations = [client.get(path(number)) for number in range(1, times + 1)]
        took = [duration for duration, _, _ in durations]
        total = durations[-1][1].getheader("X-Total-Count")
        measurement = Measurement(
            name=name,
            p50=statistics.median(took),
            p95=statistics.quantiles(took, n=20)[-1],
            longest=max(took),
            server=(cpu_seconds(self.server.process.pid) - server) / times * 1000,
            database=(self._database() - database) / times * 1000,
            goal=goal,
            note=f"total {total}" if total is not None else "",
        )
        say(str(measurement))
        self.results.append(measurement)

    def _database(self) -> float:
        """CPU seconds of the currently open database connections, which the service keeps open."""
        rows = self.connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'authsvc'")
        return sum(seconds_of(pid) for (pid,) in rows.fetchall())


def seconds_of(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except FileNotFoundError:
        return 0.0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def measure_api(meter: Meter, client: Client, *, users: int) -> None:
    connection, times = meter.connection, meter.times
    sample = connection.execute(
        "SELECT id::text, email, phone FROM users TABLESAMPLE system (1) WHERE phone IS NOT NULL LIMIT %s", (times + 1,)
    ).fetchall()
    rare = random.Random(7)
    listing = {
        "first page": lambda _: "",
        "page 1,000": lambda _: "page=1000",
        "look-up by id": lambda n: f"id={sample[n % len(sample)][0]}",
        "look-up by email": lambda n: urlencode({"email": sample[n % len(sample)][1]}),
        "look-up by phone": lambda n: urlencode({"phone": sample[n % len(sample)][2]}),
        "filter: one match": lambda _: urlencode({"filter": f".{rare.randrange(users)}@"}),
        "filter: a few, part of a number": lambda n: urlencode({"filter": f"keller.{n % 90 + 10}"}),
        "filter: a family, 1 in 14": lambda n: f"filter={crowd.FAMILY[n % len(crowd.FAMILY)]}",
        "filter: a name, 1 in 280": lambda n: urlencode(
            {"filter": f"{crowd.GIVEN[n % len(crowd.GIVEN)]} {crowd.FAMILY[n % 14]}"}
        ),
        "filter: every user": lambda _: "filter=example.com",
        "filter: a family, page 20": lambda n: f"filter={crowd.FAMILY[n % len(crowd.FAMILY)]}&page=20",
        "filter: no match": lambda n: f"filter=nobody-{n}-here",
        "filter: two letters, many": lambda n: f"filter={'aeiou'[n % 5]}r",
        "filter: two letters, no match": lambda n: f"filter=q{'bcdfghjk'[n % 8]}",
    }
    for name, query in listing.items():
        quick = name == "first page" or name.startswith("look-up")
        path = lambda n, query=query: f"/admin/users?{query(n)}"  # noqa: E731
        meter.measure(client, name, path, goal=5 if quick else 50)
    meter.measure(client, "GET /admin/users/{id}", lambda n: f"/admin/users/{sample[n % len(sample)][0]}", goal=5)


def measure_cursor(meter: Meter, client: Client) -> None:
    """Page 1,000 of a list by cursor."""
    cursor = ""
    for _ in range(999):
        _, _, body = client.get(f"/admin/users?{urlencode({'cursor': cursor})}")
        cursor = json.loads(body)["pagination"]["next_cursor"]
    meter.measure(client, "page 1,000 by cursor", lambda _: f"/admin/users?{urlencode({'cursor': cursor})}")


def measure_console(meter: Meter, *, email: str, users: int) -> None:
    url, rare = meter.server.url, random.Random(11)
    with requests.Session() as browser:
        page = browser.get(f"{url}/operator/login/", timeout=60)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token is not None
        form = {"csrfmiddlewaretoken": token[1], "name": email, "password": PASSWORD}
        browser.post(f"{url}/operator/login/", data=form, timeout=60).raise_for_status()
        cookie = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies)
    client = Client(url, {"Cookie": cookie})
    pages = {
        "console: start page": lambda _: "/operator/",
        "console: users": lambda _: "/operator/accounts/user/",
        "console: users, page 20": lambda _: "/operator/accounts/user/?p=20",
        "console: users, page 200": lambda _: "/operator/accounts/user/?p=200",
        "console: users by address": lambda _: "/operator/accounts/user/?o=1",
        "console: users by address, descending": lambda _: "/operator/accounts/user/?o=-1",
        "console: oldest users": lambda _: "/operator/accounts/user/?o=5",
        "console: last week, by address": lambda _: "/operator/accounts/user/?created=7&o=1",
        "console: search, one match": lambda _: f"/operator/accounts/user/?q=.{rare.randrange(users)}%40",
        "console: search, a family": lambda n: f"/operator/accounts/user/?q={crowd.FAMILY[n % len(crowd.FAMILY)]}",
        "console: search, two words, 1 in 280": lambda n: (
            f"/operator/accounts/user/?q={crowd.FAMILY[n % 14]}+{crowd.GIVEN[n % len(crowd.GIVEN)]}"
        ),
        "console: search, address and name": lambda _: (
            f"/operator/accounts/user/?q={crowd.FAMILY[0]}+.{rare.randrange(users)}%40"
        ),
        "console: search, part of a phone": lambda n: f"/operator/accounts/user/?q=9150{n % 10}{n % 7}4",
        "console: search, all users match": lambda _: "/operator/accounts/user/?q=example",
        "console: search, one letter": lambda n: f"/operator/accounts/user/?q={'abcdefghijk'[n % 11]}",
        "console: search, rare letter": lambda _: "/operator/accounts/user/?q=x",
        "console: search, two words, by address": lambda n: (
            f"/operator/accounts/user/?q={crowd.FAMILY[n % 14]}+{crowd.GIVEN[n % len(crowd.GIVEN)]}&o=1"
        ),
        "console: search, a family, last month": lambda n: (
            f"/operator/accounts/user/?q={crowd.FAMILY[n % len(crowd.FAMILY)]}&created=30"
        ),
        "console: search, banned, by address": lambda n: (
            f"/operator/accounts/user/?q={crowd.FAMILY[n % len(crowd.FAMILY)]}&state=banned&o=1"
        ),
        "console: search, no match": lambda n: f"/operator/accounts/user/?q=nobody-{n}-here",
        "console: banned": lambda _: "/operator/accounts/user/?state=banned",
        "console: not confirmed": lambda _: "/operator/accounts/user/?state=unconfirmed",
        "console: audit trail": lambda _: "/operator/core/auditlogentry/",
    }
    for name, path in pages.items():
        meter.measure(client, name, path, goal=300, times=meter.times // 2)


def measure_beside(server: LiveServer, *, bearer: str, admin: str, seconds: int) -> str:
    """`GET /user` from 16 clients, alternately alone and beside four clients that list users continuously."""
    rounds = []
    for _ in range(ROUNDS):
        alone = loaded(server, bearer, clients=16, path="/user", seconds=seconds)
        listing = wrk(server, admin, clients=4, path="/admin/users", seconds=seconds + 2)
        time.sleep(1)
        beside = loaded(server, bearer, clients=16, path="/user", seconds=seconds)
        rounds.append((beside / alone, alone, beside, answered(listing) / (seconds + 2)))
    ratio, alone, beside, lists = sorted(rounds)[ROUNDS // 2]
    spread = ", ".join(f"{share:.0%}" for share, *_ in rounds)
    return (
        f"GET /user: {alone:.0f}/s alone, {beside:.0f}/s beside {lists:.0f} lists/s: {ratio:.0%} ({spread}; goal 80%)"
    )


def loaded(server: LiveServer, bearer: str, *, clients: int, path: str, seconds: int) -> float:
    return answered(wrk(server, bearer, clients=clients, path=path, seconds=seconds)) / seconds


def wrk(server: LiveServer, bearer: str, *, clients: int, path: str, seconds: int) -> subprocess.Popen[str]:
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "20s"]
    return subprocess.Popen(
        [*command, "-H", f"Authorization: Bearer {bearer}", server.url + path], stdout=subprocess.PIPE, text=True
    )


def answered(process: subprocess.Popen[str]) -> int:
    output, _ = process.communicate()
    match = re.search(r"(\d+) requests in", output)
    if match is None or "Non-2xx" in output:
        raise RuntimeError(output)
    return int(match[1])


def manage(url: str, *arguments: str, typed: str = "") -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env={**kept, **ENVIRONMENT, "DATABASE_URL": url},
        input=typed,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()


def wait_for_indexes(connection: Connection) -> bool:
    """Wait for the search indexes; return False on a server without the extension."""
    offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_trgm'").fetchone()
    while offered is not None:
        rows = connection.execute(
            "SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE relname LIKE 'users%%search_idx'"
            " AND indisvalid AND EXISTS (SELECT FROM pg_stats WHERE tablename = 'users_words_search_idx')"
        ).fetchall()
        if len(rows) == 3:
            return True
        time.sleep(0.5)
    return False


def run(url: str, folder: Path, *, users: int, times: int, seconds: int) -> None:
    manage(url, "migrate", "--verbosity", "0")
    manage(url, "createsuperuser", "--email", "operator@example.org", "--password-file", "-", typed=f"{PASSWORD}\n")
    admin = manage(url, "mint_token", "--role", "service_role", "--expires", "24h")
    headers = {"Authorization": f"Bearer {admin}"}
    lines = []
    with psycopg.connect(url, autocommit=True) as connection:
        crowd.fill(connection, 1, SMALL)
        with LiveServer(folder=folder, database_url=url, env=SETTINGS) as server:
            loaded(server, admin, clients=2, path="/admin/users", seconds=2)
            before = cpu_seconds(server.process.pid)
            lists = answered(wrk(server, admin, clients=2, path="/admin/users", seconds=seconds))
            spent = (cpu_seconds(server.process.pid) - before) / lists * 1000
            lines.append(f"list of {SMALL} users, a page of 50: {spent:.2f} ms of the server's CPU (goal 1.5)")
        connection.execute(
            "DROP INDEX IF EXISTS users_email_search_idx, users_full_name_search_idx, users_words_search_idx"
        )
        begun = time.monotonic()
        crowd.fill(connection, SMALL + 1, users)
        lines.append(f"{users:,} users filled in: {time.monotonic() - begun:.0f} s")
        begun = time.monotonic()
        with LiveServer(folder=folder, database_url=url, env=SETTINGS) as server:
            if wait_for_indexes(connection):
                lines.append(f"search indexes built: {time.monotonic() - begun:.0f} s")
            say("\n".join(lines))
            credentials = {"email": "user@example.org", "password": PASSWORD}
            signed_up = requests.post(f"{server.url}/signup", json=credentials, timeout=10)
            signed_up.raise_for_status()
            meter = Meter(server=server, connection=connection, times=times)
            measure_api(meter, Client(server.url, headers), users=users)
            measure_console(meter, email="operator@example.org", users=users)
            bearer = signed_up.json()["access_token"]
            lines.append(measure_beside(server, bearer=bearer, admin=admin, seconds=seconds))
        by_cursor = {**SETTINGS, "AUTH_EXPERIMENTAL_CURSOR_PAGINATION_ENABLED": "true"}
        with LiveServer(folder=folder, database_url=url, env=by_cursor) as server:
            last = dataclasses.replace(meter, server=server)
            measure_cursor(last, Client(server.url, headers))
    say("\n".join(["", HEAD, *map(str, last.results), *lines]))


@contextlib.contextmanager
def database(server: str, *, keep: bool) -> Iterator[str]:
    name = "million"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {name}".encode())
    try:
        yield urlsplit(server)._replace(path=f"/{quote(name)}").geturl()
    finally:
        if not keep:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure lists of a million users.")
    parser.add_argument("--database", default="", help="URL of a PostgreSQL server that allows CREATE DATABASE")
    parser.add_argument("--users", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--times", type=int, default=100, help="requests per type (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=5, help="duration of every load (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the database for inspection")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="authsvc-million-") as folder:
        server = options.database or embedded.start(Path(folder) / "pg", settings={"max_wal_size": "4GB"})
        try:
            with database(server, keep=options.keep) as url:
                run(url, Path(folder), users=options.users, times=options.times, seconds=options.seconds)
        finally:
            if not options.database:
                embedded.stop(Path(folder) / "pg")


if __name__ == "__main__":
    main()
