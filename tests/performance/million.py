"""What a list of a million users costs: `python -m tests.performance.million --database postgresql://…` (needs `wrk`).

Fills a database of its own on that server (else on a private one, which has no trigram indexes), serves it, and times
the administration API and the console over HTTP, one request after the other. The database is dropped at the end.
"""

from __future__ import annotations

import argparse
import contextlib
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
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import psycopg
import requests

from authsvc.core import embedded
from tests.live import PROJECT, LiveServer
from tests.performance import crowd
from tests.performance.bench import cpu_seconds
from tests.performance.crowd import Connection
from tests.settings import ENVIRONMENT

PASSWORD = "correct horse 1"
SETTINGS = {
    "AUTH_LOG_LEVEL": "error",
    "AUTH_MAILER_AUTOCONFIRM": "true",
    "AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST": "true",
}
SMALL = 200


class Client:
    """One connection that is kept, and the milliseconds of each request on it."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        self._headers = headers

    def get(self, path: str) -> tuple[float, http.client.HTTPResponse, bytes]:
        begun = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")
        return (time.perf_counter() - begun) * 1000, answer, body


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(name: str, times: list[float], note: str = "") -> None:
    p95 = statistics.quantiles(times, n=20)[-1]
    say(f"{name:44}{statistics.median(times):9.1f}{p95:9.1f}{max(times):9.1f}  {note}")


def measure(client: Client, name: str, path: Callable[[int], str], *, times: int) -> None:
    client.get(path(0))
    found = [client.get(path(number)) for number in range(1, times + 1)]
    total = found[-1][1].getheader("X-Total-Count")
    show(name, [took for took, _, _ in found], f"total {total}" if total is not None else "")


def measure_api(client: Client, connection: Connection, *, users: int, times: int) -> None:
    sample = connection.execute(
        "SELECT id::text, email, phone FROM users TABLESAMPLE system (1) WHERE phone IS NOT NULL LIMIT %s", (times + 1,)
    ).fetchall()
    rare = random.Random(7)
    middle = connection.execute(
        "SELECT created_at, id::text FROM users WHERE aud = 'authenticated' ORDER BY created_at DESC, users.id DESC"
        " OFFSET %s LIMIT 1",
        (min(49_950, users // 2),),
    ).fetchone()
    assert middle is not None
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
        "filter: everybody": lambda _: "filter=example.com",
        "filter: a family, page 20": lambda n: f"filter={crowd.FAMILY[n % len(crowd.FAMILY)]}&page=20",
        "filter: nobody": lambda n: f"filter=nobody-{n}-here",
    }
    for name, query in listing.items():
        measure(client, name, lambda n, query=query: f"/admin/users?{query(n)}", times=times)  # type: ignore[misc]
    measure(client, "filter: nobody, two characters", lambda n: f"/admin/users?filter=%C3%B8{n % 10}", times=5)
    found = [client.get(f"/admin/users/{sample[n % len(sample)][0]}")[0] for n in range(times)]
    show("GET /admin/users/{id}", found)


def measure_cursor(client: Client, *, times: int) -> None:
    """The thousandth page of those by cursor, and those around it."""
    cursor = ""
    for _ in range(999):
        _, _, body = client.get(f"/admin/users?{urlencode({'cursor': cursor})}")
        cursor = json.loads(body)["pagination"]["next_cursor"]
    measure(client, "page 1,000 by cursor", lambda _: f"/admin/users?{urlencode({'cursor': cursor})}", times=times)


def measure_console(url: str, *, email: str, users: int, times: int) -> None:
    rare = random.Random(11)
    with requests.Session() as browser:
        page = browser.get(f"{url}/operator/login/", timeout=60)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token is not None
        form = {"csrfmiddlewaretoken": token[1], "name": email, "password": PASSWORD}
        browser.post(f"{url}/operator/login/", data=form, timeout=60).raise_for_status()
        cookie = "; ".join(f"{each.name}={each.value}" for each in browser.cookies)
    client = Client(url, {"Cookie": cookie})
    pages = {
        "console: start page": lambda _: "/operator/",
        "console: users": lambda _: "/operator/accounts/user/",
        "console: users, page 20": lambda _: "/operator/accounts/user/?p=20",
        "console: search, one match": lambda _: f"/operator/accounts/user/?q=.{rare.randrange(users)}%40",
        "console: search, a family": lambda n: f"/operator/accounts/user/?q={crowd.FAMILY[n % len(crowd.FAMILY)]}",
        "console: search, nobody": lambda n: f"/operator/accounts/user/?q=nobody-{n}-here",
        "console: banned": lambda _: "/operator/accounts/user/?state=banned",
        "console: not confirmed": lambda _: "/operator/accounts/user/?state=unconfirmed",
        "console: audit trail": lambda _: "/operator/core/auditlogentry/",
    }
    for name, path in pages.items():
        measure(client, name, path, times=times)


def measure_beside(server: LiveServer, *, bearer: str, admin: str, seconds: int) -> None:
    """`GET /user` from 16 clients alone, then while four others list as fast as they are answered."""
    alone = loaded(server, bearer, clients=16, path="/user", seconds=seconds)
    listing = wrk(server, admin, clients=4, path="/admin/users", seconds=seconds + 2)
    time.sleep(1)
    beside = loaded(server, bearer, clients=16, path="/user", seconds=seconds)
    lists = answered(listing) / (seconds + 2)
    say(f"GET /user: {alone:.0f}/s alone, {beside:.0f}/s beside {lists:.0f} lists/s ({beside / alone:.0%})")


def loaded(server: LiveServer, bearer: str, *, clients: int, path: str, seconds: int) -> float:
    return answered(wrk(server, bearer, clients=clients, path=path, seconds=seconds)) / seconds


def wrk(server: LiveServer, bearer: str, *, clients: int, path: str, seconds: int) -> subprocess.Popen[str]:
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "20s"]
    return subprocess.Popen(
        [*command, "-H", f"Authorization: Bearer {bearer}", server.url + path], stdout=subprocess.PIPE, text=True
    )


def answered(process: subprocess.Popen[str]) -> int:
    said, _ = process.communicate()
    found = re.search(r"(\d+) requests in", said)
    if found is None or "Non-2xx" in said:
        raise RuntimeError(said)
    return int(found[1])


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
    """Whether the search indexes come to be; a server without the extension never has them."""
    offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_trgm'").fetchone()
    while offered is not None:
        found = connection.execute(
            "SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE relname LIKE 'users%%search_idx'"
            " AND indisvalid AND EXISTS (SELECT FROM pg_stats WHERE tablename = 'users_full_name_search_idx')"
        ).fetchall()
        if len(found) == 2:
            return True
        time.sleep(0.5)
    return False


def run(url: str, folder: Path, *, users: int, times: int, seconds: int) -> None:
    manage(url, "migrate", "--verbosity", "0")
    manage(url, "createsuperuser", "--email", "operator@example.org", "--password-file", "-", typed=f"{PASSWORD}\n")
    admin = manage(url, "mint_token", "--role", "service_role", "--expires", "24h")
    headers = {"Authorization": f"Bearer {admin}"}
    with psycopg.connect(url, autocommit=True) as connection:
        crowd.fill(connection, 1, SMALL)
        with LiveServer(folder=folder, database_url=url, env=SETTINGS) as server:
            loaded(server, admin, clients=2, path="/admin/users", seconds=2)
            before, lists = (
                cpu_seconds(server.process.pid),
                answered(wrk(server, admin, clients=2, path="/admin/users", seconds=seconds)),
            )
            spent = (cpu_seconds(server.process.pid) - before) / lists * 1000
            say(f"list of {SMALL} users, a page of 50: {spent:.2f} ms of the server's CPU")
        connection.execute("DROP INDEX IF EXISTS users_email_search_idx, users_full_name_search_idx")
        begun = time.monotonic()
        crowd.fill(connection, SMALL + 1, users)
        say(f"{users:,} users filled in: {time.monotonic() - begun:.0f} s")
        begun = time.monotonic()
        with LiveServer(folder=folder, database_url=url, env=SETTINGS) as server:
            if wait_for_indexes(connection):
                say(f"search indexes built: {time.monotonic() - begun:.0f} s")
            credentials = {"email": "somebody@example.org", "password": PASSWORD}
            signed_up = requests.post(f"{server.url}/signup", json=credentials, timeout=10)
            signed_up.raise_for_status()
            say(f"{'':44}{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}")
            measure_api(Client(server.url, headers), connection, users=users, times=times)
            measure_console(server.url, email="operator@example.org", users=users, times=times)
            bearer = signed_up.json()["access_token"]
            measure_beside(server, bearer=bearer, admin=admin, seconds=seconds)
        by_cursor = {**SETTINGS, "AUTH_EXPERIMENTAL_CURSOR_PAGINATION_ENABLED": "true"}
        with LiveServer(folder=folder, database_url=url, env=by_cursor) as server:
            measure_cursor(Client(server.url, headers), times=times)


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
    parser = argparse.ArgumentParser(description="Time the list of a million users.")
    parser.add_argument("--database", default="", help="URL of a server where a database may be made")
    parser.add_argument("--users", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--times", type=int, default=100, help="requests of a kind (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=5, help="of every load (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the database for a closer look")
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
