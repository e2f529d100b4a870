"""Checks that several servers and workers share the work of the whole installation.

Periodic tasks run once per period, search indexes are built once, webhooks and messages are sent once, and another
process takes over from one that is killed. The metrics of the installation are the same everywhere, and sums of the
other metrics count each event once.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil
import psycopg
import requests
from prometheus_client.parser import text_string_to_metric_families

from authsvc.jobs import registry
from tests import ports
from tests.deployment import installation, postgresql, scenarios
from tests.deployment.frequent_jobs import PERIOD_SECONDS
from tests.deployment.installation import Installation
from tests.deployment.load import PASSWORD
from tests.fakes.http_peer import Response
from tests.live.servers import LiveServer
from tests.timeouts import wait_until

PERIODS = 8
SETTLING_SECONDS = 2 * PERIOD_SECONDS
"""Time in which a second process would begin the work of another one."""
TAKEOVER_SECONDS = 30
"""Longest time until another process takes over: the lease of a webhook, its time limit included."""
ENTRIES = 50_000
"""Audit entries of sign-ins, more than one batch of the daily counts."""
ENTRY_AGE = 110
"""Seconds. The daily counts take entries of two minutes."""
EXPIRED_ROWS = 2_500
FAILED_JOBS = 7
SIGN_UPS = 48
WEBHOOK_SECONDS = 6
"""Time limit of the answer to a webhook."""
INDEXES = ("users_email_search_idx", "users_full_name_search_idx", "users_words_search_idx")

# Jobs are deleted when they have ended, so triggers keep their starts.
_LOGS = """
    CREATE TABLE started_jobs (task text, tick bigint, job bigint, worker bigint);
    CREATE FUNCTION log_started_job() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO public.started_jobs
        VALUES (NEW.task_name, (NEW.args ->> 'timestamp')::bigint, NEW.id, NEW.worker_id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER log_started_job AFTER UPDATE OF status ON procrastinate_jobs
        FOR EACH ROW WHEN (NEW.status = 'doing' AND OLD.status = 'todo') EXECUTE FUNCTION log_started_job();
    CREATE TABLE surveys (at timestamptz);
    CREATE FUNCTION log_survey() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO public.surveys VALUES (NEW.seen_at);
        RETURN NULL;
    END $$;
    CREATE TRIGGER log_survey AFTER INSERT OR UPDATE ON password_hash_kinds
        FOR EACH ROW WHEN (NEW.kind = '') EXECUTE FUNCTION log_survey();
"""
_LOG_DEFINITIONS = f"ALTER ROLE {postgresql.ROLE} SET log_statement = 'ddl'"
_DEFINITION = re.compile(
    r"CREATE (?:INDEX CONCURRENTLY|TABLE) \"?(users_\w+_search_idx|audit_log_entries_\d{4}_\d\d)\b"
)
_PARTITIONS = r"""
    SELECT inhrelid::regclass::text FROM pg_inherits
    WHERE inhparent = 'audit_log_entries'::regclass AND inhrelid::regclass::text ~ '_\d{4}_\d{2}$' ORDER BY 1"""
_ENTRIES = """
    INSERT INTO audit_log_entries (id, payload, created_at)
    SELECT gen_random_uuid(), '{"action": "login"}', clock_timestamp() - make_interval(secs => %s)
    FROM generate_series(1, %s)"""
_COUNTED = "SELECT COALESCE(sum(count), 0)::int FROM daily_counts WHERE series = 'sign_ins'"
_COUNTING_JOB = """
    SELECT id, worker_id FROM procrastinate_jobs WHERE task_name = 'core.daily_counts' AND status = 'doing'"""
_LOCK_COUNTS = "SELECT FROM daily_counts_progress WHERE source = 'audit_log_entries' FOR UPDATE"
_LOCK_USERS = "LOCK TABLE users IN ROW EXCLUSIVE MODE"
"""The building of an index waits for the end of the transaction, all other statements go on."""
_EXPIRED_ROWS = """
    INSERT INTO flow_state (id, provider_type, authentication_method, created_at)
    SELECT gen_random_uuid(), '', '', now() - interval '1 year' FROM generate_series(1, %s)"""
_FAILED_JOBS = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, status)
    SELECT %s, 'tests.failed', 'failed' FROM generate_series(1, %s)"""
_WORKERS = "SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat > now() - interval '6 seconds'"
_ATTEMPTS = """
    SELECT attempt FROM webhook_attempts
    WHERE delivery_id = (SELECT id FROM webhook_deliveries ORDER BY sequence DESC LIMIT 1)"""
_DEFERRED_TWICE = """
    SELECT task, tick FROM started_jobs WHERE tick IS NOT NULL GROUP BY 1, 2 HAVING count(DISTINCT job) > 1"""
_WAITING = "SELECT client_port FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"

Connection = psycopg.Connection[Any]


def value(connection: Connection, statement: str, *parameters: object) -> Any:
    row = connection.execute(statement, parameters).fetchone()
    return row[0] if row else None


@contextlib.contextmanager
def holding(node: postgresql.Node, statement: str) -> Iterator[Callable[[], list[int]]]:
    """Hold the locks of a statement and yield a function that returns the client ports of connections that wait."""
    with node.connect() as watcher, node.connect() as holder, holder.transaction():
        holder.execute(statement)
        pid = holder.info.backend_pid
        yield lambda: [port for (port,) in watcher.execute(_WAITING, (pid,)).fetchall()]


class Programs:
    """The servers and workers of an installation, and the ports of their metrics."""

    def __init__(self, running: Installation, metrics_ports: Sequence[int]) -> None:
        self.all = [*running.servers, *running.workers]
        self._metrics_ports = metrics_ports
        self._node = running.pair.primary

    def with_port(self, port: int) -> LiveServer:
        """The program one of whose processes has a connection from this port. Raises RuntimeError."""
        for program in self.all:
            with contextlib.suppress(psutil.NoSuchProcess):
                main = psutil.Process(program.process.pid)
                for process in [main, *main.children(recursive=True)]:
                    if any(connection.laddr.port == port for connection in process.net_connections("tcp")):
                        return program
        raise RuntimeError("the fault had no effect: no process has the connection")

    def start_again(self, program: LiveServer) -> None:
        program.launch()
        self.wait()

    def wait(self) -> None:
        """Wait until each program runs jobs and exports metrics."""
        with self._node.connect() as connection:
            wait_until(lambda: value(connection, _WORKERS) == len(self.all), "all workers")
        wait_until(lambda: all(map(ports.is_listening, self._metrics_ports)), "the metrics of all programs")

    def samples(self, name: str, **labels: str) -> list[float]:
        """The sum of the samples with these labels, in the metrics of each running program."""
        return [
            _sum_of_samples(port, name, labels)
            for program, port in zip(self.all, self._metrics_ports, strict=True)
            if program.process.poll() is None
        ]


def _sum_of_samples(port: int, name: str, labels: dict[str, str]) -> float:
    text = requests.get(f"http://127.0.0.1:{port}/", timeout=60).text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def definitions(node: postgresql.Node) -> Counter[str]:
    """Name → number of statements that began to create this search index or partition."""
    return Counter(_DEFINITION.findall((node.folder / "log").read_text(errors="replace")))


def check_periodic_tasks(connection: Connection) -> None:
    """Each task runs once in each of the next periods, and more than one program runs tasks."""
    first = int(time.time()) // PERIOD_SECONDS + 1
    ticks = [PERIOD_SECONDS * number for number in range(first, first + PERIODS)]
    expected = Counter((task, tick) for task in registry.periodic_tasks for tick in ticks)

    def started() -> list[tuple[str, int, int]]:
        statement = "SELECT task, tick, worker FROM started_jobs WHERE tick = ANY(%s)"
        return connection.execute(statement, (ticks,)).fetchall()

    wait_until(lambda: len(started()) >= expected.total(), "the periodic tasks")
    time.sleep(SETTLING_SECONDS)
    rows = started()
    runs = Counter((task, tick) for task, tick, _ in rows)
    assert runs == expected, f"more or fewer runs than one: {runs - expected}, {expected - runs}"
    assert len({worker for _, _, worker in rows}) > 1, "one program has run every task"


def take_over_indexes(node: postgresql.Node, programs: Programs, waiting: Callable[[], list[int]]) -> LiveServer:
    """Kill the program that builds the search indexes, and return it."""
    wait_until(waiting, "the program that builds the search indexes")
    time.sleep(SETTLING_SECONDS)
    assert len(waiting()) == 1, "several programs build search indexes"
    killed = programs.with_port(*waiting())
    killed.kill()
    assert definitions(node).keys() & set(INDEXES) == {INDEXES[0]}
    return killed


def take_over_counts(node: postgresql.Node, connection: Connection, programs: Programs) -> tuple[LiveServer, float]:
    """Kill the program that counts audit entries; return it and the seconds until another one starts its job."""
    assert value(connection, _COUNTED) == 0
    with holding(node, _LOCK_COUNTS) as waiting:
        connection.execute(_ENTRIES, (ENTRY_AGE, ENTRIES))
        wait_until(waiting, "the program that counts audit entries")
        # The tasks of the next periods must wait for this one.
        time.sleep(SETTLING_SECONDS)
        assert len(waiting()) == 1, "several programs count audit entries"
        ((job, worker),) = connection.execute(_COUNTING_JOB).fetchall()
        killed = programs.with_port(*waiting())
        killed.kill()
        began = time.monotonic()
    by_another = "SELECT count(*) FROM started_jobs WHERE job = %s AND worker <> %s"
    wait_until(lambda: value(connection, by_another, job, worker), "another worker for the job")
    seconds = time.monotonic() - began
    wait_until(lambda: value(connection, _COUNTED) >= ENTRIES, "the daily counts")
    time.sleep(SETTLING_SECONDS)
    assert value(connection, _COUNTED) == ENTRIES
    return killed, seconds


def check_metrics(running: Installation, connection: Connection, programs: Programs) -> None:
    """Sums over all programs count each event once; metrics of the installation are the same on each."""
    emails = {"name": "auth_message_deliveries_total", "channel": "email", "outcome": "delivered"}
    webhooks = {"name": "auth_webhook_deliveries_total", "outcome": "succeeded"}
    cleaned = {"name": "auth_cleanup_affected_rows_total"}
    before = [programs.samples(**metric) for metric in (emails, webhooks, cleaned)]

    connection.execute(_EXPIRED_ROWS, (EXPIRED_ROWS,))
    for _ in range(SIGN_UPS):
        sign_up(running)
    wait_until(lambda: not value(connection, "SELECT count(*) FROM flow_state"), "the cleanup")
    wait_until(lambda: len(running.smtp.received) >= SIGN_UPS, "the emails")
    wait_until(lambda: has_delivered_all(connection), "the webhooks")
    time.sleep(SETTLING_SECONDS)

    deliveries = Counter(received.headers["webhook-id"] for received in running.receiver.received)
    assert set(deliveries.values()) == {1}
    assert len(deliveries) >= SIGN_UPS
    for metric, earlier, expected in zip(
        (emails, webhooks, cleaned), before, (len(running.smtp.received), len(deliveries), EXPIRED_ROWS), strict=True
    ):
        later = programs.samples(**metric)
        added = [after - former for after, former in zip(later, earlier, strict=True)]
        assert sum(added) == expected, f"{metric['name']}: {added}"
        if metric is not cleaned:
            assert len([number for number in added if number]) > 1, f"one program has done all: {metric['name']}"
    assert len(running.smtp.received) == SIGN_UPS

    connection.execute(_FAILED_JOBS, (registry.queue(), FAILED_JOBS))
    assert programs.samples("auth_queue_jobs", state="failed") == [FAILED_JOBS] * len(programs.all)


def sign_up(running: Installation) -> None:
    body = {"email": f"{uuid.uuid4().hex}@example.com", "password": PASSWORD}
    requests.post(f"http://127.0.0.1:{running.port}/signup", json=body, timeout=60).raise_for_status()


def has_delivered_all(connection: Connection) -> bool:
    unfinished = """
        SELECT (SELECT count(*) FROM webhook_events WHERE NOT is_fanned_out)
             + (SELECT count(*) FROM webhook_deliveries WHERE status <> 'succeeded')"""
    return not value(connection, unfinished)


def take_over_webhook(running: Installation, connection: Connection, programs: Programs) -> float:
    """Kill the program that waits for the response to a webhook; return the seconds until another sends it again."""
    receiver = running.receiver
    number = len(receiver.received)
    receiver.respond(Response(hang=True), Response(status=204))
    sign_up(running)
    receiver.wait_for_requests(number + 1)
    sent = receiver.received[number]
    # The others must leave the delivery to the program that waits.
    time.sleep(WEBHOOK_SECONDS / 2)
    assert len(receiver.received) == number + 1, "two programs have sent the same webhook"
    programs.with_port(sent.client_port).kill()
    began = time.monotonic()
    assert programs.samples("auth_webhook_pending") == [1] * (len(programs.all) - 1)
    receiver.wait_for_requests(number + 2)
    seconds = time.monotonic() - began
    assert receiver.received[number + 1].headers["webhook-id"] == sent.headers["webhook-id"]
    wait_until(lambda: has_delivered_all(connection), "the webhooks")
    stored = [attempt for (attempt,) in connection.execute(_ATTEMPTS).fetchall()]
    assert stored == [2], f"the killed program has stored its attempt: {stored}"
    return seconds


def check(*, number: int = 6, worker_number: int = 2) -> dict[str, float]:
    """Work → seconds from the kill of the program that did it until another one took it over. Raises AssertionError."""
    metrics_ports = [ports.free_port() for _ in range(number + worker_number)]
    env = {
        "DJANGO_SETTINGS_MODULE": "tests.deployment.frequent_jobs_settings",
        "AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST": "true",
        "AUTH_WEBHOOKS_TIMEOUT": f"{WEBHOOK_SECONDS}s",
        "AUTH_METRICS_ENABLED": "true",
        "AUTH_METRICS_EXPORTER": "prometheus",
        "AUTH_OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
    }
    seconds = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scenarios.folders())
        pair = stack.enter_context(postgresql.running_pair(scenarios.postgresql_programs()))
        connection = stack.enter_context(pair.primary.connect())
        installation.migrate(pair)
        connection.execute(_LOGS)
        pair.primary.execute(_LOG_DEFINITIONS)
        (partition,) = connection.execute(_PARTITIONS).fetchall()[-1]
        pair.primary.execute(f"DROP TABLE {partition}")
        with holding(pair.primary, _LOCK_USERS) as waiting:
            running = stack.enter_context(
                installation.running(
                    folder,
                    pair=pair,
                    number=number,
                    worker_number=worker_number,
                    env=env,
                    further_env=lambda position: {"AUTH_OTEL_EXPORTER_PROMETHEUS_PORT": str(metrics_ports[position])},
                )
            )
            programs = Programs(running, metrics_ports)
            programs.wait()
            killed = take_over_indexes(pair.primary, programs, waiting)
            began = time.monotonic()
        valid = "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid::regclass::text = ANY(%s)"
        wait_until(lambda: value(connection, valid, list(INDEXES)) == len(INDEXES), "the search indexes")
        seconds["search indexes"] = time.monotonic() - began
        assert "search index built" not in killed.log.read_text(errors="replace")
        programs.start_again(killed)

        check_periodic_tasks(connection)
        killed, seconds["periodic task"] = take_over_counts(pair.primary, connection, programs)
        programs.start_again(killed)
        check_metrics(running, connection, programs)
        seconds["webhook"] = take_over_webhook(running, connection, programs)

        created = definitions(pair.primary)
        assert {*INDEXES, partition} <= created.keys()
        assert set(created.values()) == {1}, created
        assert value(connection, "SELECT count(*) FROM surveys") == 1
        assert not connection.execute(_DEFERRED_TWICE).fetchall()
        assert value(connection, "SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed'") == FAILED_JOBS
    assert max(seconds.values()) < TAKEOVER_SECONDS, seconds
    return seconds
