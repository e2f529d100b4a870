"""Measures webhooks: `python -m tests.performance.webhooks` (needs `pgbench`, of the Debian package postgresql).

`sign-ins`: latency and CPU time of password sign-ins, alternately beside nothing, beside 1,000 plain transactions a
second, and beside 1,000 transactions with an event each, with and without events of the sign-ins. `backlog`: deliveries
of 100,000 events to an endpoint that answers, also beside one that hangs, and the statements of a worker beside a
million deliveries that wait for one user's first. Each measurement uses a private database. CPU times hardly depend on
other load of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson
import psycopg

from authsvc.db import embedded
from tests.live.servers import PROJECT, LiveServer
from tests.performance.bench import PASSWORD, SETTINGS, cpu_seconds
from tests.performance.million import manage, say
from tests.settings import ENVIRONMENT

EVENTS_PER_SECOND = 1_000
BODY_BYTES = 1_200
"""About the length of a document with a user who has one identity."""
EMAIL = "webhooks@example.com"
SIGN_IN = orjson.dumps({"email": EMAIL, "password": PASSWORD})
WEBHOOKS = {"AUTH_WEBHOOKS_ENABLED": "true", "AUTH_WEBHOOKS_ALLOW_PRIVATE_NETWORKS": "true"}
INSERT = f"""
INSERT INTO webhook_events (id, sequence, type, user_id, body, is_fanned_out, created_at)
SELECT gen_random_uuid(), n, 'session.started', md5((n % 10000)::text)::uuid,
    convert_to('{{"sequence":' || n::text || ',"data":"' || repeat('x', {BODY_BYTES}) || '"}}', 'UTF8'), false, now()
FROM nextval('webhook_events_sequence_seq') AS n;
"""
BACKLOG = INSERT.replace("%", "%%").replace(
    "FROM nextval('webhook_events_sequence_seq') AS n;",
    "FROM generate_series(1, %s) AS g, LATERAL (SELECT nextval('webhook_events_sequence_seq') + 0 * g AS n) AS s",
)
ENDPOINT = """
INSERT INTO webhook_endpoints (id, url, event_types, secret) VALUES (gen_random_uuid(), %s, %s, %s)
"""
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"


def postmaster(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])


class SignIns:
    """Signs in again and again over one connection."""

    def __init__(self, server: LiveServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

    def run(self, *, seconds: float) -> list[float]:
        """The milliseconds of each sign-in."""
        took = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            started = time.perf_counter()
            self._connection.request(
                "POST", "/token?grant_type=password", SIGN_IN, {"Content-Type": "application/json"}
            )
            response = self._connection.getresponse()
            response.read()
            if response.status != http.HTTPStatus.OK:
                raise RuntimeError(f"a sign-in answered {response.status}")
            took.append((time.perf_counter() - started) * 1000)
        return took


@contextlib.contextmanager
def writer(folder: Path, *, seconds: int, statement: str) -> Iterator[None]:
    """Run the statement `EVENTS_PER_SECOND` times a second during the block, each time in its own transaction."""
    if not statement:
        yield
        return
    script = folder / "statement.sql"
    script.write_text(statement)
    socket_folder = (folder / "pg/data/postmaster.pid").read_text().splitlines()[4]
    command = ["pgbench", "-n", "-M", "prepared", "-c", "4", "-j", "1", "-R", str(EVENTS_PER_SECOND)]
    command += ["-T", str(seconds), "-f", str(script), "-h", socket_folder, "-U", embedded.ROLE, embedded.DATABASE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        yield
        output = process.communicate()[0]
    if process.returncode or "number of failed transactions: 0" not in output:
        raise RuntimeError(output)


def database_seconds(folder: Path) -> float:
    """CPU seconds of PostgreSQL, with those of connections that have ended."""
    pid = postmaster(folder)
    while True:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a connection has just ended
            running = cpu_seconds(pid)
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            return running + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def measure_sign_ins(folder: Path, *, rounds: int, seconds: int) -> None:
    url = embedded.start(folder / "pg")
    try:
        manage(url, "migrate", "-v", "0")
        with contextlib.ExitStack() as stack:
            servers = {}
            # The deliveries are those of another process, as on a server with much load.
            variables = {**SETTINGS, "AUTH_MAILER_WORKER_ENABLED": "false", "WEB_CONCURRENCY": "1"}
            for name, settings in (("off", {}), ("on", WEBHOOKS)):
                (folder / name).mkdir()
                server = LiveServer(folder=folder / name, database_url=url, env={**variables, **settings})
                servers[name] = stack.enter_context(server)
            connection = stack.enter_context(psycopg.connect(url, autocommit=True))
            connection.execute(ENDPOINT, ("https://hooks.example.com", ["session.*"], SECRET))
            sign_up = http.client.HTTPConnection("127.0.0.1", servers["off"].port, timeout=30)
            sign_up.request("POST", "/signup", SIGN_IN, {"Content-Type": "application/json"})
            if sign_up.getresponse().status != http.HTTPStatus.OK:
                raise RuntimeError("no sign-up")
            clients = {name: SignIns(server) for name, server in servers.items()}
            for client in clients.values():
                client.run(seconds=2)
            connection.execute("CREATE TABLE plain_rows (id bigint)")
            variants = (("off", "nothing"), ("off", "transactions"), ("off", "events"), ("on", "events"))
            alternate(folder, servers, clients, variants, connection, rounds=rounds, seconds=seconds)
    finally:
        embedded.stop(folder / "pg")


def alternate(
    folder: Path,
    servers: dict[str, LiveServer],
    clients: dict[str, SignIns],
    variants: tuple[tuple[str, str], ...],
    connection: psycopg.Connection[Any],
    *,
    rounds: int,
    seconds: int,
) -> None:
    """Print the medians of all variants, and of the ratios to the first variant in the same round."""
    medians: dict[tuple[str, str], list[float]] = {variant: [] for variant in variants}
    tails: dict[tuple[str, str], list[float]] = {variant: [] for variant in variants}
    server_cpu: dict[tuple[str, str], list[float]] = {variant: [] for variant in variants}
    database_cpu: dict[tuple[str, str], list[float]] = {variant: [] for variant in variants}
    statements = {"nothing": "", "transactions": "INSERT INTO plain_rows VALUES (1);", "events": INSERT}
    for number in range(rounds):
        for variant in variants[number % len(variants) :] + variants[: number % len(variants)]:
            name, written = variant
            pid = servers[name].process.pid
            database_before = database_seconds(folder / "pg")
            with writer(folder, seconds=seconds, statement=statements[written]):
                before = cpu_seconds(pid)
                took = clients[name].run(seconds=seconds)
                server_cpu[variant].append((cpu_seconds(pid) - before) / len(took) * 1000)
            database_cpu[variant].append((database_seconds(folder / "pg") - database_before) / seconds)
            medians[variant].append(statistics.median(took))
            tails[variant].append(statistics.quantiles(took, n=20)[-1])
    say(f"{'beside':14}{'webhooks':10}{'p50 ms':>9}{'p95 ms':>9}{'ratio':>8}{'CPU ms':>9}{'database CPU':>15}")
    for variant in variants:
        ratios = [one / other for one, other in zip(medians[variant], medians[variants[0]], strict=True)]
        name, written = variant
        say(
            f"{written:14}{name:10}{statistics.median(medians[variant]):9.2f}"
            f"{statistics.median(tails[variant]):9.2f}{statistics.median(ratios):8.3f}"
            f"{statistics.median(server_cpu[variant]):9.2f}{statistics.median(database_cpu[variant]):14.1%}"
        )
    counted = connection.execute("SELECT count(*), count(*) FILTER (WHERE body LIKE '%evt_%') FROM webhook_events")
    total, recorded = counted.fetchone() or (0, 0)
    say(f"{total} events, {recorded} of them recorded by sign-ins")


class Receiver(asyncio.Protocol):
    """Answers each request at once, or none at all."""

    responses = True

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        if separator and len(body) >= length:
            self._buffer = body[length:]
            if self.responses:
                self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


class HangingReceiver(Receiver):
    responses = False


def serve(ports: Connection) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(kind, "127.0.0.1", 0) for kind in (Receiver, HangingReceiver)]
        ports.send([server.sockets[0].getsockname()[1] for server in servers])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextlib.contextmanager
def receivers() -> Iterator[tuple[str, str]]:
    """The URLs of a receiver that answers, and of one that hangs."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    answering, hanging = ours.recv()
    try:
        yield f"http://127.0.0.1:{answering}/", f"http://127.0.0.1:{hanging}/"
    finally:
        process.terminate()


def measure_backlog(folder: Path, *, events: int, waiting: int) -> None:
    url = embedded.start(folder / "pg")
    try:
        manage(url, "migrate", "-v", "0")
        with receivers() as (answering, hanging), psycopg.connect(url, autocommit=True) as connection:
            connection.execute(ENDPOINT, (answering, ["*"], SECRET))
            drain(folder, url, connection, events=events, label="an endpoint that answers")
            connection.execute(ENDPOINT, (hanging, ["*"], SECRET))
            drain(folder, url, connection, events=events, label="the same beside an endpoint that hangs")
            measure_statements(url, connection, waiting=waiting)
    finally:
        embedded.stop(folder / "pg")


def drain(folder: Path, url: str, connection: psycopg.Connection[Any], *, events: int, label: str) -> None:
    """A worker delivers new events to the endpoint that answers."""
    connection.execute(BACKLOG, (events,))
    connection.execute("ANALYZE")
    done_before = succeeded(connection)
    variables = {**os.environ, **ENVIRONMENT, **SETTINGS, **WEBHOOKS, "DATABASE_URL": url}
    with subprocess.Popen([sys.executable, "manage.py", "worker"], cwd=PROJECT, env=variables) as worker:
        while succeeded(connection) == done_before:
            time.sleep(0.05)
        first = succeeded(connection)
        started, cpu, database_cpu = time.monotonic(), cpu_seconds(worker.pid), database_seconds(folder / "pg")
        while succeeded(connection) - done_before < events:
            time.sleep(0.5)
        seconds, number = time.monotonic() - started, events - (first - done_before)
        cpu, database_cpu = cpu_seconds(worker.pid) - cpu, database_seconds(folder / "pg") - database_cpu
        worker.terminate()
    say(
        f"{events} events to {label}: {seconds:.0f} s, {number / seconds:.0f} a second;"
        f" CPU of an event: worker {cpu / number * 1000:.2f} ms, database {database_cpu / number * 1000:.2f} ms"
    )


def succeeded(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT count(*) FROM webhook_deliveries WHERE status = 'succeeded'").fetchone()
    return int(row[0]) if row else 0


def measure_statements(url: str, connection: psycopg.Connection[Any], *, waiting: int) -> None:
    """A worker's statements beside deliveries of one user that wait, the first of them for its next attempt."""
    connection.execute("TRUNCATE webhook_events CASCADE")
    connection.execute(BACKLOG, (waiting,))
    connection.execute("UPDATE webhook_events SET is_fanned_out = true, user_id = md5('one')::uuid")
    connection.execute(
        "INSERT INTO webhook_deliveries (id, event_id, endpoint_id, type, user_id, sequence, next_attempt_at)"
        " SELECT gen_random_uuid(), e.id, p.id, e.type, e.user_id, e.sequence,"
        " CASE WHEN e.sequence = (SELECT min(sequence) FROM webhook_events) THEN now() + interval '1 hour' END"
        " FROM webhook_events e, (SELECT id FROM webhook_endpoints ORDER BY created_at LIMIT 1) p"
    )
    connection.execute("VACUUM ANALYZE webhook_events, webhook_deliveries")
    connection.execute(BACKLOG, (1_000,))
    say(f"beside {waiting} deliveries of one user that wait for the first:")
    variables = {**os.environ, **ENVIRONMENT, **SETTINGS, **WEBHOOKS, "DATABASE_URL": url}
    subprocess.run([sys.executable, "-c", STATEMENTS], cwd=PROJECT, env=variables, check=True)


STATEMENTS = """
import time, django
django.setup()
from datetime import timedelta
from django.db import transaction
from django.utils import timezone
from hooks.models import WebhookDelivery, WebhookEndpoint
from hooks.webhooks import queries

endpoint_id = WebhookEndpoint.objects.order_by("created_at").first().id

def timed(label, work):
    started = time.perf_counter()
    result = work()
    print(f"  {label}: {(time.perf_counter() - started) * 1000:.1f} ms", flush=True)
    return result

def lease():
    return queries.lease(limits={endpoint_id: 2}, limit=4, at=timezone.now(), duration=timedelta(minutes=1))

@transaction.atomic
def fan_out():
    queries.fan_out(limit=500, at=timezone.now())

@transaction.atomic
def store():
    queries.store_results([queries.StoredResult(
        id=first.id, attempt=first.attempt, outcome="succeeded", next_attempt_at=None, started_at=timezone.now(),
        duration_ms=1, status=200, error=None, head=None)], at=timezone.now())

assert lease() == []
timed("search for due deliveries, without any", lease)
fan_out()
timed("deliveries of 500 new events", fan_out)
hour = timedelta(hours=1)
WebhookDelivery.objects.filter(next_attempt_at__gt=timezone.now()).update(next_attempt_at=timezone.now() - hour)
first, _ = timed("lease of two due deliveries", lease)
timed("result that releases the next delivery of the user", store)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure webhooks.")
    parser.add_argument("what", choices=("sign-ins", "backlog"))
    parser.add_argument("--rounds", type=int, default=12, help="of sign-ins (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=4, help="duration of every load (default: %(default)s)")
    parser.add_argument("--events", type=int, default=100_000, help="that are delivered (default: %(default)s)")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="deliveries that wait (default: %(default)s)")
    options = parser.parse_args()
    if shutil.which("pgbench") is None:
        sys.exit("pgbench is needed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="authsvc-webhooks-") as folder:
        if options.what == "sign-ins":
            measure_sign_ins(Path(folder), rounds=options.rounds, seconds=options.seconds)
        else:
            measure_backlog(Path(folder), events=options.events, waiting=options.waiting)


if __name__ == "__main__":
    main()
