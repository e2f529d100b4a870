"""Throughput of one, two and three servers on one database in one run, and CPU time per request.

Each server may use a part of a core where control groups of version 1 can be written, so that the servers do not
compete for the cores of this machine. Then the ratios show what the servers wait for in the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.deployment import installation, postgresql, scenarios
from tests.deployment.client import Client
from tests.deployment.load import PASSWORD
from tests.performance.bench import cpu_seconds, tree

SECONDS = 10.0
WARM_UP_SECONDS = 3.0
CLIENTS = 8
"""Per server."""
CORE_SHARE = 0.25
_GROUPS = Path("/sys/fs/cgroup/cpu")
_PERIOD_MICROSECONDS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    servers: int
    per_second: float
    server_milliseconds: float
    """CPU time of the servers per request."""
    database_milliseconds: float
    """CPU time of PostgreSQL per request."""
    is_limited: bool


def measure(*, numbers: tuple[int, ...] = (1, 2, 3), seconds: float = SECONDS) -> list[Measured]:
    """One measurement for each number of servers, on the same database."""
    with (
        scenarios.folders() as folder,
        postgresql.running_pair(scenarios.postgresql_programs()) as pair,
        installation.running(
            folder,
            pair=pair,
            number=max(numbers),
            env={"AUTH_MAILER_AUTOCONFIRM": "true", "AUTH_WEBHOOKS_ENABLED": "false", "AUTH_LOG_LEVEL": "error"},
            worker_number=0,
        ) as running,
    ):
        for server in running.servers:
            server.stop()
        measured = []
        for number in numbers:
            active = running.servers[:number]
            for server in active:
                if server.process.poll() is not None:
                    server.launch()
            for server in active:
                server.wait()
            roots = [server.process.pid for server in active]
            with _limited(roots) as is_limited:
                asyncio.run(_use([server.port for server in active], WARM_UP_SECONDS))
                before = sum(map(cpu_seconds, roots)), _database_seconds(pair)
                requests, took = asyncio.run(_use([server.port for server in active], seconds))
                after = sum(map(cpu_seconds, roots)), _database_seconds(pair)
            measured.append(
                Measured(
                    servers=number,
                    per_second=requests / took,
                    server_milliseconds=(after[0] - before[0]) / requests * 1000,
                    database_milliseconds=(after[1] - before[1]) / requests * 1000,
                    is_limited=is_limited,
                )
            )
        return measured


def _database_seconds(pair: postgresql.Pair) -> float:
    with contextlib.suppress(FileNotFoundError):  # a connection has just ended
        return cpu_seconds(pair.primary.processes()[0].pid)
    return _database_seconds(pair)


@contextlib.contextmanager
def _limited(roots: list[int]) -> Iterator[bool]:
    """Limit each of these processes, with its children, to `CORE_SHARE`; False where that is not possible."""
    groups = [_GROUPS / f"authsvc-{os.getpid()}-{root}" for root in roots]
    if not os.access(_GROUPS, os.W_OK) or not (_GROUPS / "cpu.cfs_quota_us").exists():
        yield False
        return
    try:
        for group, root in zip(groups, roots, strict=True):
            group.mkdir()
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(int(CORE_SHARE * _PERIOD_MICROSECONDS)))
            for pid in tree(root):
                (group / "cgroup.procs").write_text(str(pid))
        yield True
    finally:
        for group, root in zip(groups, roots, strict=True):
            for pid in tree(root):
                (_GROUPS / "cgroup.procs").write_text(str(pid))
            group.rmdir()


async def _use(ports: list[int], seconds: float) -> tuple[int, float]:
    """The number of requests that all clients send in this time, and the time that they took."""
    began = time.monotonic()
    numbers = await asyncio.gather(*(_use_account(port, began + seconds) for port in ports for _ in range(CLIENTS)))
    return sum(numbers), time.monotonic() - began


async def _use_account(port: int, until: float) -> int:
    """Sign up; then sign in, refresh and read the user again and again."""
    client = Client(port)
    credentials = {"email": f"{uuid.uuid4().hex}@example.com", "password": PASSWORD}
    session = await _expect(client, "POST", "/signup", credentials)
    number = 1
    while time.monotonic() < until:
        session = await _expect(client, "POST", "/token?grant_type=password", credentials)
        body = {"refresh_token": session["refresh_token"]}
        session = await _expect(client, "POST", "/token?grant_type=refresh_token", body)
        for _ in range(2):
            await _expect(client, "GET", "/user", bearer=session["access_token"])
        number += 4
    client.close()
    return number


async def _expect(
    client: Client, method: str, path: str, body: dict[str, str] | None = None, *, bearer: str = ""
) -> dict[str, str]:
    response = await client.request(method, path, body, bearer=bearer)
    if response.status != 200:
        raise RuntimeError(f"{path} was answered with {response.status}")
    return dict(response.json())


def table(measured: list[Measured]) -> list[str]:
    """Lines of a Markdown table, relative to the first measurement."""
    first = measured[0]
    lines = [
        "| servers | requests/s | ratio | CPU ms per request | ratio | CPU ms of PostgreSQL |",
        "|---|---|---|---|---|---|",
    ]
    for one in measured:
        ratios = one.per_second / first.per_second, one.server_milliseconds / first.server_milliseconds
        lines.append(
            f"| {one.servers} | {one.per_second:.0f} | {ratios[0]:.2f} | {one.server_milliseconds:.2f} |"
            f" {ratios[1]:.2f} | {one.database_milliseconds:.2f} |"
        )
    share = f"{CORE_SHARE:.0%} of a core" if first.is_limited else "all cores, together with this program"
    return [*lines, f"Each server may use {share}."]
