"""Faults of an installation under load, and what its clients noticed of them."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from psycopg import sql

from authsvc.db import read_replica
from tests import ports
from tests.accounts.administration import admin_requests
from tests.deployment import installation, invariants, postgresql
from tests.deployment.installation import Installation
from tests.deployment.load import PASSWORD, Load, Result, by_status
from tests.live.servers import LiveServer
from tests.timeouts import wait_until

FAULT_SECONDS = 3.0
"""Time until an operator or Patroni reacts, or until a fault ends."""
RESERVED_CONNECTIONS = 3
"""Connections that PostgreSQL keeps for superusers."""
DETECTION_SECONDS = 1.0
"""Time until the loss of the primary is noticed."""
MAX_SECONDS = 15.0
"""Longest response time: AUTH_API_MAX_REQUEST_DURATION, and a margin for a busy machine."""
WAITING_EMAILS = 20
AUDIT_ENTRIES = 300_000
"""Entries that exist before an upgrade, so that its migrations take their time."""
FORBIDDEN, BAD_GATEWAY, UNAVAILABLE, TIMED_OUT = 403, 502, 503, 504

Fault = Callable[[Installation, Load], "Period"]
"""Causes the fault and ends it."""


@dataclass(frozen=True, slots=True)
class Period:
    """Times of time.monotonic()."""

    began: float
    ended: float
    """For example, when the standby was promoted."""


@dataclass(kw_only=True)
class Outcome:
    name: str
    answered: int
    refused: dict[int, int]
    """Status → number of requests; 0 is a failed connection."""
    outage: float
    """Seconds from the fault to the last refusal; 0 without a refusal."""
    recovery: float
    """Seconds from the end of the fault to the last refusal; 0 without a refusal after it."""
    longest: float
    """Seconds of the longest request."""
    report: invariants.InvariantReport
    problems: list[str] = field(default_factory=list)
    """Problems of the report, and refusals that are not permitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    fault: Fault
    permitted: frozenset[int]
    """Statuses of refusals that clients may see."""
    expected_status: int = 0
    """Status that a refusal must have, or else the fault had no effect; 0 where the fault checks its effect alone."""
    doubled_mails: int = 0
    """Emails that may arrive twice, if a worker dies between the reply of the mail server and the end of its job."""
    times: int = 1
    responses: int = 120
    """Requests that are answered before a fault, after it, and between its steps."""


def run(scenario: Scenario, running: Installation) -> Outcome:
    """Cause the fault under load, end the load, and check everything."""
    with Load(running, responses=scenario.responses) as load:
        load.wait()
        period = scenario.fault(running, load)
        load.wait()
    results = load.journal.since(period.began - MAX_SECONDS)
    refusals = [result for result in results if not result.was_answered]
    last = max((result.ended for result in refusals), default=0.0)
    report = invariants.check(running, load.journal)
    outcome = Outcome(
        name=scenario.name,
        answered=sum(result.was_answered for result in load.journal.results),
        refused=by_status(refusals),
        outage=max(0.0, last - period.began),
        recovery=max(0.0, last - period.ended),
        longest=max(result.ended - result.began for result in results),
        report=report,
        problems=[*report.problems],
    )
    unexpected = {_describe(result) for result in refusals if not _is_permitted(result, scenario.permitted)}
    outcome.problems += [f"refused with {text}" for text in sorted(unexpected)]
    if scenario.expected_status and scenario.expected_status not in outcome.refused:
        outcome.problems.append(f"the fault had no effect: no request was refused with {scenario.expected_status}")
    if report.doubled_mails > scenario.doubled_mails:
        outcome.problems.append(f"{report.doubled_mails} emails were sent twice")
    if outcome.longest > MAX_SECONDS:
        outcome.problems.append(f"a request took {outcome.longest:.1f} s")
    return outcome


def _is_permitted(result: Result, permitted: frozenset[int]) -> bool:
    return result.status in permitted and (result.status != UNAVAILABLE or bool(result.retry_after))


def _describe(result: Result) -> str:
    without = " without Retry-After" if result.status == UNAVAILABLE and not result.retry_after else ""
    return f"{result.status} {result.code}{without}".strip()


def _require(effect: object, text: str) -> None:
    """Raises RuntimeError if the fault had no effect, so that the scenario would prove nothing."""
    if not effect:
        raise RuntimeError(f"the fault had no effect: {text}")


def lose_primary(running: Installation, load: Load) -> Period:
    """Kill the primary, promote the standby, and build a new standby while requests are answered."""
    began = time.monotonic()
    running.pair.primary.kill()
    time.sleep(DETECTION_SECONDS)
    running.pair.promote_standby()
    ended = time.monotonic()
    load.wait()
    running.pair.build_standby()
    return Period(began, ended)


def freeze_primary(running: Installation, load: Load) -> Period:
    """As `lose_primary`, but connections to the primary stay open and nothing answers."""
    frozen = running.pair.primary
    began = time.monotonic()
    frozen.freeze()
    wait_until(frozen.is_frozen, "a primary that does not run")
    time.sleep(DETECTION_SECONDS)
    running.pair.promote_standby()
    ended = time.monotonic()
    try:
        load.wait()
    finally:
        frozen.kill()
    running.pair.build_standby()
    return Period(began, ended)


def stop_standby(running: Installation, load: Load) -> Period:
    """Stop the standby, then let commits no longer wait for it, and build a new one."""
    began = time.monotonic()
    running.pair.standby.kill()
    killed = time.monotonic()
    time.sleep(DETECTION_SECONDS)
    _require(not load.answered(since=killed), "commits do not wait for the standby")
    running.pair.set_synchronous(False)
    ended = time.monotonic()
    load.wait()
    running.pair.build_standby()
    return Period(began, ended)


def delay_and_stop_replica(running: Installation, load: Load) -> Period:
    """Pause the replay of the standby, which serves lists, until lists leave it; continue it, then stop the standby."""
    statement = "SELECT count(*) FROM users"

    def listed() -> int:
        url = f"http://127.0.0.1:{running.port}/admin/users?count=exact&per_page=1"
        response = requests.get(url, headers={"Authorization": f"Bearer {admin_requests.token()}"}, timeout=60)
        response.raise_for_status()
        return int(response.headers["X-Total-Count"])

    def users_of(node: postgresql.Node) -> int:
        with node.connect() as connection:
            ((number,),) = connection.execute(statement).fetchall()
        return int(number)

    began = time.monotonic()
    running.pair.standby.execute("SELECT pg_wal_replay_pause()")
    paused = users_of(running.pair.standby)
    load.wait()
    if any(listed() != paused for _ in running.servers) or users_of(running.pair.primary) == paused:
        raise RuntimeError("lists do not come from the replica")
    wait_until(lambda: listed() > paused, "lists of the primary")
    running.pair.standby.execute("SELECT pg_wal_replay_resume()")
    time.sleep(read_replica.PAUSE_SECONDS)
    if listed() <= paused:
        raise RuntimeError("lists are old")
    period = stop_standby(running, load)
    if listed() <= paused:
        raise RuntimeError("lists are old")
    return Period(began, period.ended)


def kill_server(running: Installation, load: Load) -> Period:
    server = running.servers[0]
    began = time.monotonic()
    server.kill()
    ended = time.monotonic()
    load.wait()
    _require(not ports.is_listening(server.port), "the server runs")
    server.launch()
    server.wait()
    return Period(began, ended)


def restart_servers(running: Installation, load: Load) -> Period:
    """Restart one server after the other, as a rolling upgrade does."""
    began = time.monotonic()
    for server in running.servers:
        server.stop(signal.SIGTERM)
        load.wait()
        _require(not ports.is_listening(server.port), "the server runs")
        server.launch()
        server.wait()
    return Period(began, time.monotonic())


def upgrade(running: Installation, load: Load) -> Period:
    """Migrate, then replace one server after the other, and the worker.

    Emails that the former version has queued are refused temporarily until nothing of it runs.
    """
    began = time.monotonic()
    for number in range(WAITING_EMAILS):
        credentials = {"email": f"waiting-{number}@example.com", "password": PASSWORD}
        running.smtp.rejections[credentials["email"]] = "451 4.3.0 Try again later"
        response = requests.post(f"http://127.0.0.1:{running.port}/signup", json=credentials, timeout=60)
        response.raise_for_status()
        load.journal.accounts[credentials["email"]] = response.json()["id"]
    before = _migrations(running.pair)
    installation.migrate(running.pair)
    _require(_migrations(running.pair) > before, "the former version has all migrations")
    load.wait()
    for position, server in enumerate(running.servers):
        server.stop(signal.SIGTERM)
        load.wait()
        running.servers[position] = running.replace(server)
        running.servers[position].wait()
    for position, worker in enumerate(running.workers):
        worker.stop(signal.SIGTERM)
        load.wait()
        running.workers[position] = running.replace(worker)
    running.smtp.rejections.clear()
    running.pair.primary.execute("UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo'")
    return Period(began, time.monotonic())


def _migrations(pair: postgresql.Pair) -> int:
    with pair.primary.connect() as connection:
        ((number,),) = connection.execute("SELECT count(*) FROM django_migrations").fetchall()
    return int(number)


def block_table(running: Installation, load: Load) -> Period:
    """Lock the users for longer than `statement_timeout` permits."""
    pair = running.pair
    pair.primary.execute(f"ALTER ROLE {postgresql.ROLE} SET statement_timeout = '1s'")
    _end_connections(pair)
    load.wait()
    began = time.monotonic()
    with pair.primary.connect() as connection, connection.transaction():
        connection.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        time.sleep(FAULT_SECONDS)
    ended = time.monotonic()
    load.wait()
    _require(pair.primary.logged("canceling statement due to statement timeout"), "no statement was cancelled")
    pair.primary.execute(f"ALTER ROLE {postgresql.ROLE} RESET statement_timeout")
    _end_connections(pair)
    return Period(began, ended)


def take_connections(running: Installation, load: Load) -> Period:
    """Let another role open every connection that PostgreSQL permits, instead of the service."""
    primary = running.pair.primary
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        primary.execute("CREATE ROLE other LOGIN")
    taken: list[psycopg.Connection[Any]] = []
    began = time.monotonic()
    # The service would open connections again as fast as the other role takes them.
    primary.execute(f"ALTER ROLE {postgresql.ROLE} CONNECTION LIMIT 0")
    try:
        try:
            _end_connections(running.pair)
            wait_until(lambda: _take_free_connections(primary, taken), "the last connection")
        finally:
            primary.execute(f"ALTER ROLE {postgresql.ROLE} CONNECTION LIMIT -1")
        while time.monotonic() < began + FAULT_SECONDS:
            # An attempt to connect that ended after the others were taken leaves a free connection.
            is_none_free = _take_free_connections(primary, taken)
            time.sleep(0.05)
        _require(is_none_free, "connections are free")
        least = postgresql.MAX_CONNECTIONS - RESERVED_CONNECTIONS
        _require(len(taken) >= least, f"{len(taken)} connections are taken")
        refused = by_status(load.journal.since(began))
    finally:
        for connection in taken:
            connection.close()
    _require(refused, "no request was refused while every connection was taken")
    return Period(began, time.monotonic())


def _take_free_connections(node: postgresql.Node, taken: list[psycopg.Connection[Any]]) -> bool:
    """Take every free connection for another role; True once none is free and the service has none."""
    try:
        while True:
            taken.append(node.connect(user="other"))
    except psycopg.OperationalError:
        with node.connect() as connection:
            query = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{postgresql.ROLE}'"
            ((number,),) = connection.execute(sql.SQL(query)).fetchall()
        return not number


def _end_connections(pair: postgresql.Pair) -> None:
    pair.primary.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{postgresql.ROLE}'")


def fill_disk(running: Installation, load: Load) -> Period:
    """Fill the file system of the primary, then free it, and start PostgreSQL if it has stopped."""
    primary = running.pair.primary
    ballast = primary.folder / "ballast"
    began = time.monotonic()
    refused_since: float | None = None
    with ballast.open("wb", buffering=0) as file:
        while refused_since is None or time.monotonic() < refused_since + FAULT_SECONDS:
            try:
                file.write(bytes(2**12))
                continue
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            # PostgreSQL has files with free space; this ends the current one of the log.
            with contextlib.suppress(psycopg.OperationalError):
                primary.execute("SELECT pg_switch_wal()")
            if refused_since is None and by_status(load.journal.since(began)):
                refused_since = time.monotonic()
            if time.monotonic() > began + MAX_SECONDS:
                break
            time.sleep(0.05)
    could_write = _can_write(primary)
    ballast.unlink()
    _require(not could_write, "PostgreSQL can write")
    if not primary.processes():
        (primary.data / "postmaster.pid").unlink(missing_ok=True)
        primary.start()
    return Period(began, time.monotonic())


def _can_write(node: postgresql.Node) -> bool:
    try:
        node.execute("CREATE TABLE written AS SELECT generate_series(1, 1000000)")
    except psycopg.OperationalError:
        return False
    return True


def change_clock(file: Path, seconds: int) -> Fault:
    """Move the clock of the last server, which reads the offset from `file`, and set it right again."""

    def fault(running: Installation, load: Load) -> Period:
        began = time.monotonic()
        file.write_text(f"{seconds:+d}")
        time.sleep(FAULT_SECONDS)
        load.wait()
        difference = _clock(running.servers[-1]) - _clock(running.servers[0])
        _require(abs(difference - seconds) < MAX_SECONDS, f"the clocks differ by {difference:.0f} s")
        file.write_text("+0")
        return Period(began, time.monotonic())

    return fault


def _clock(server: LiveServer) -> float:
    """The time of the server when it logged the last request, in seconds since 1970."""
    complete, _, _ = server.log.read_text().rpartition("\n")
    lines = (line for line in reversed(complete.splitlines()) if '"msg":"request completed"' in line)
    return datetime.fromisoformat(json.loads(next(lines))["time"]).timestamp()


def restart_pooler(pooler: installation.Pooler) -> Fault:
    def fault(_running: Installation, _load: Load) -> Period:
        began = time.monotonic()
        pooler.stop()
        _require(not pooler.is_listening(), "PgBouncer runs")
        pooler.start()
        return Period(began, time.monotonic())

    return fault


_FILL_AUDIT_TRAIL = f"""
    INSERT INTO audit_log_entries (id, payload, created_at, ip_address)
    SELECT gen_random_uuid(), json_build_object('action', 'login', 'actor_id', gen_random_uuid()),
           now() - n * interval '1 minute', '' FROM generate_series(1, {AUDIT_ENTRIES}) n
"""
_UNAVAILABLE = frozenset({UNAVAILABLE})
FAILOVER = Scenario(
    name="primary killed, standby promoted", fault=lose_primary, permitted=_UNAVAILABLE, expected_status=UNAVAILABLE
)
"""The scenario that `make test` runs too."""
_SCENARIOS = (
    dataclasses.replace(FAILOVER, times=10),
    Scenario(name="standby stopped", fault=stop_standby, permitted=frozenset()),
    # A worker runs one job at a time.
    Scenario(name="server killed", fault=kill_server, permitted=frozenset({BAD_GATEWAY}), times=3, doubled_mails=1),
    Scenario(name="rolling restart", fault=restart_servers, permitted=frozenset()),
    Scenario(
        name="statement_timeout hit", fault=block_table, permitted=_UNAVAILABLE | {TIMED_OUT}, expected_status=TIMED_OUT
    ),
    Scenario(name="connections taken", fault=take_connections, permitted=_UNAVAILABLE, expected_status=UNAVAILABLE),
)
FROZEN = Scenario(
    name="primary frozen, standby promoted",
    fault=freeze_primary,
    permitted=frozenset({UNAVAILABLE, TIMED_OUT}),
    expected_status=TIMED_OUT,
)


@contextlib.contextmanager
def folders() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="authsvc-installation-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def postgresql_programs() -> Path:
    """Skip the test without Debian's PostgreSQL; fail it in CI."""
    found = postgresql.find_programs()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Debian's PostgreSQL is not installed")
    return found


def failover(
    *, number: int = 3, scenarios: tuple[Scenario, ...] = _SCENARIOS, worker_number: int = 1
) -> Iterator[Outcome]:
    with (
        folders() as folder,
        postgresql.running_pair(postgresql_programs()) as pair,
        installation.running(folder, pair=pair, number=number, worker_number=worker_number) as running,
    ):
        for scenario in scenarios:
            for _ in range(scenario.times):
                yield run(scenario, running)


def upgrade_from(former: str = "", *, number: int = 3) -> Iterator[Outcome]:
    """From the commit or tag `former`; by default from the last commit without the newest migration."""
    with folders() as folder:
        project = installation.extract_former_version(folder, former)
        with (
            postgresql.running_pair(postgresql_programs()) as pair,
            installation.running(folder, pair=pair, number=number, project=project) as running,
        ):
            pair.primary.execute(_FILL_AUDIT_TRAIL)
            yield run(Scenario(name="rolling upgrade", fault=upgrade, permitted=frozenset()), running)


def replica(*, number: int = 3) -> Iterator[Outcome]:
    with folders() as folder, postgresql.running_pair(postgresql_programs()) as pair:
        url = f"postgresql://{postgresql.ROLE}@127.0.0.1:{pair.standby.port}/{postgresql.DATABASE}"
        with installation.running(folder, pair=pair, number=number, env={"AUTH_DB_READ_REPLICA_URL": url}) as running:
            name = "replica delayed, then stopped"
            yield run(Scenario(name=name, fault=delay_and_stop_replica, permitted=frozenset()), running)


def pooler(*, number: int = 3) -> Iterator[Outcome]:
    with (
        folders() as folder,
        postgresql.running_pair(postgresql_programs()) as pair,
        installation.Pooler(folder, pair) as pgbouncer,
        installation.running(
            folder,
            pair=pair,
            number=number,
            database_url=pgbouncer.url,
            env=pgbouncer.settings,
        ) as running,
    ):
        fault = restart_pooler(pgbouncer)
        yield run(Scenario(name="PgBouncer restarted", fault=fault, permitted=_UNAVAILABLE), running)


def disk(*, number: int = 3) -> Iterator[Outcome]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    with (
        folders() as folder,
        postgresql.running_pair(postgresql_programs(), primary_megabytes=600) as pair,
        installation.running(folder, pair=pair, number=number) as running,
    ):
        scenario = Scenario(name="disk full", fault=fill_disk, permitted=_UNAVAILABLE, expected_status=UNAVAILABLE)
        yield run(scenario, running)


def clock(*, number: int = 3) -> Iterator[Outcome]:
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("libfaketime is not installed")
    with folders() as folder, postgresql.running_pair(postgresql_programs()) as pair:
        file = folder / "offset"
        file.write_text("+0")
        env = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        of_last_server = {number - 1: env}
        with installation.running(
            folder, pair=pair, number=number, further_env=lambda position: of_last_server.get(position, {})
        ) as running:
            for name, seconds in (("an hour ahead", 3600), ("an hour behind", -3600)):
                # The other servers refuse tokens that are issued in the future or have expired.
                permitted = frozenset({FORBIDDEN})
                fault = change_clock(file, seconds)
                scenario = Scenario(name=f"clock of one server {name}", fault=fault, permitted=permitted)
                yield run(scenario, running)


ALL: dict[str, Callable[..., Iterator[Outcome]]] = {
    "failover": failover,
    "frozen": functools.partial(failover, scenarios=(FROZEN,)),
    "upgrade": upgrade_from,
    "replica": replica,
    "pooler": pooler,
    "disk": disk,
    "clock": clock,
}
