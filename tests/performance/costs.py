"""Measures CPU time, WAL, flushes and disk space per operation: `python -m tests.performance.costs`.

Fills a private PostgreSQL with users, serves it with one process, and sends one request after the other, each for
another user. Prints a row for each operation, then one for each table with the bytes of a row and of its index entries.
Takes about five minutes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg

from authsvc.db import embedded
from tests.live.servers import LiveServer
from tests.performance import crowd
from tests.performance.bench import PASSWORD, SETTINGS, cpu_seconds
from tests.performance.crowd import Connection

_UNITS = {
    "server_seconds": 1000,
    "database_seconds": 1000,
    "wal_bytes": 1 / 1024,
    "full_pages": 1,
    "flushes": 1,
    "disk_bytes": 1 / 1024,
}
_SPENT = """
    SELECT pg_current_wal_insert_lsn() - '0/0', (SELECT wal_fpi FROM pg_stat_wal),
        (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'), pg_database_size(current_database())
"""
_TABLES = """
    SELECT relname, n_live_tup, pg_table_size(relid)::float / n_live_tup, pg_indexes_size(relid)::float / n_live_tup
    FROM pg_stat_user_tables WHERE n_live_tup >= %s ORDER BY relname
"""


@dataclass(frozen=True)
class Spent:
    """Totals since the start of the servers."""

    server_seconds: float
    database_seconds: float
    wal_bytes: float
    full_pages: float
    flushes: float
    disk_bytes: float


class Costs:
    def __init__(self, server: LiveServer, connection: Connection) -> None:
        where = urlsplit(server.url)
        self._http = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        self._server = server.process.pid
        self._connection = connection
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        self._database = psutil.Process(row[0] if row else 0).ppid()

    def request(
        self, method: str, path: str, body: dict[str, str] | None = None, *, bearer: str = ""
    ) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        self._http.request(method, path, json.dumps(body) if body else None, headers)
        response = self._http.getresponse()
        content = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {content!r}")
        document: dict[str, Any] = json.loads(content or b"{}")
        return document

    def _spent(self) -> Spent:
        # An idle connection reports its statistics after ten seconds.
        self._connection.execute("SELECT pg_sleep(11), pg_stat_clear_snapshot()")
        row = self._connection.execute(_SPENT).fetchone()
        wal, pages, flushes, disk = map(float, row or ())
        return Spent(cpu_seconds(self._server), cpu_seconds(self._database), wal, pages, flushes, disk)

    def measure(self, name: str, calls: Iterable[Callable[[], dict[str, Any]]], *, cold: bool) -> list[dict[str, Any]]:
        """Run the calls and print a row; `cold`: after a checkpoint, when a first change writes a whole page."""
        if cold:
            self._connection.execute("CHECKPOINT")
        before = self._spent()
        responses = [call() for call in calls]
        after = self._spent()
        columns = [
            (getattr(after, field.name) - getattr(before, field.name)) / len(responses) * _UNITS[field.name]
            for field in fields(Spent)
        ]
        print(
            f"{name + (', whole pages' if cold else ''):24}{''.join(f'{value:9.2f}' for value in columns)}", flush=True
        )
        return responses


def run(folder: Path, *, users: int, number: int) -> None:
    url = embedded.start(folder / "pg")
    try:
        environment = {**SETTINGS, "WEB_CONCURRENCY": "1"}
        with (
            LiveServer(folder=folder, database_url=url, env=environment) as server,
            psycopg.connect(url, autocommit=True) as connection,
        ):
            costs = Costs(server, connection)
            costs.request("POST", "/signup", {"email": "first@example.com", "password": PASSWORD})
            crowd.fill(connection, 1, users)
            connection.execute(
                "UPDATE users SET encrypted_password ="
                " (SELECT encrypted_password FROM users WHERE email = 'first@example.com')"
                " WHERE id IN (SELECT id FROM users ORDER BY id LIMIT %s)",
                [number],
            )
            connection.execute("VACUUM ANALYZE")
            rows = connection.execute("SELECT email FROM users ORDER BY id LIMIT %s", [number]).fetchall()
            print(f"{'':24}{'service':>9}{'database':>9}{'WAL':>9}{'whole':>9}{'':9}{'disk':>9}")
            print(f"{'':24}{'CPU ms':>9}{'CPU ms':>9}{'KiB':>9}{'pages':>9}{'flushes':>9}{'KiB':>9}")
            _measure_operations(costs, [row[0] for row in rows])
            connection.execute("VACUUM ANALYZE")
            print(f"\n{'table':28}{'rows':>10}{'row B':>10}{'index B':>10}")
            for name, rows_of_table, row_bytes, index_bytes in connection.execute(_TABLES, [number // 2]):
                print(f"{name:28}{rows_of_table:10}{row_bytes:10.0f}{index_bytes:10.0f}")
    finally:
        embedded.stop(folder / "pg")


def _measure_operations(costs: Costs, emails: list[str]) -> None:
    def sign_in(email: str) -> Callable[[], dict[str, Any]]:
        return lambda: costs.request("POST", "/token?grant_type=password", {"email": email, "password": PASSWORD})

    def refresh(token: str) -> Callable[[], dict[str, Any]]:
        return lambda: costs.request("POST", "/token?grant_type=refresh_token", {"refresh_token": token})

    def read(token: str) -> Callable[[], dict[str, Any]]:
        return lambda: costs.request("GET", "/user", bearer=token)

    def sign_up(index: str) -> Callable[[], dict[str, Any]]:
        body = {"email": f"new{index}@example.com", "password": PASSWORD}
        return lambda: costs.request("POST", "/signup", body)

    def sign_out(token: str) -> Callable[[], dict[str, Any]]:
        return lambda: costs.request("POST", "/logout?scope=local", bearer=token)

    def repeat(name: str, calls: list[Callable[[], dict[str, Any]]]) -> list[dict[str, Any]]:
        costs.measure(name, calls, cold=True)
        return costs.measure(name, calls, cold=False)

    sessions = repeat("sign-in", [sign_in(email) for email in emails])
    for cold in (True, False):
        sessions = costs.measure("refresh", [refresh(session["refresh_token"]) for session in sessions], cold=cold)
    repeat("GET /user", [read(session["access_token"]) for session in sessions])
    for cold in (True, False):
        costs.measure("sign-up", [sign_up(f"{cold}{index}") for index in range(len(emails))], cold=cold)
    middle = len(sessions) // 2
    for cold, part in ((True, sessions[:middle]), (False, sessions[middle:])):
        costs.measure("sign-out", [sign_out(session["access_token"]) for session in part], cold=cold)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the cost of each operation in CPU time, WAL and disk space.")
    parser.add_argument("--users", type=int, default=200_000, help="(default: %(default)s)")
    parser.add_argument("--number", type=int, default=1000, help="requests per operation (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="authsvc-costs-") as folder:
        run(Path(folder), users=options.users, number=options.number)


if __name__ == "__main__":
    main()
