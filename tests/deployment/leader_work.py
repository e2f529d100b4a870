"""Checks that one of several servers does the work of the whole installation: periodic jobs, counts, search indexes.

The metrics of the installation are the same on all servers.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psutil
import psycopg
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests import ports
from tests.deployment import installation, postgresql, scenarios
from tests.live.robustness import conftest as robust
from tests.live.servers import LiveServer

USERS = 200_000
"""Enough to kill the server that builds the indexes before it has finished."""
ENTRIES = 50_000
"""Audit entries of sign-ins, more than one batch of the daily counts."""
FAILED_JOBS = 7
MINUTES = 2
PERIODIC_TASKS = ("core.cleanup", "core.daily_counts")
"""Tasks that run every minute."""
INDEXES = ("users_email_search_idx", "users_full_name_search_idx", "users_words_search_idx")

# Jobs are deleted when they have ended, so triggers keep their starts.
_LOG_OF_JOBS = """
    CREATE TABLE started_jobs (task text, minute bigint, job bigint);
    CREATE FUNCTION log_started_job() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO public.started_jobs VALUES (NEW.task_name, (NEW.args ->> 'timestamp')::bigint / 60, NEW.id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER log_started_job AFTER UPDATE OF status ON procrastinate_jobs
        FOR EACH ROW WHEN (NEW.status = 'doing' AND OLD.status = 'todo') EXECUTE FUNCTION log_started_job();
"""
_USERS = """
    INSERT INTO users (id, aud, email, raw_user_meta_data, created_at, updated_at)
    SELECT gen_random_uuid(), 'authenticated', 'user' || number || '@example.com',
        jsonb_build_object('full_name', md5(number::text)), now(), now()
    FROM generate_series(1, %s) AS number"""
_ENTRIES = """
    INSERT INTO audit_log_entries (id, payload, created_at)
    SELECT gen_random_uuid(), '{"action": "login"}', now() - interval '1 hour' FROM generate_series(1, %s)"""
_FAILED_JOBS = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, status)
    SELECT queue, 'tests.failed', 'failed'
    FROM (SELECT DISTINCT periodic_id FROM procrastinate_periodic_defers) AS known (queue), generate_series(1, %s)"""
_BUILDER = """
    SELECT client_port FROM pg_stat_progress_create_index JOIN pg_stat_activity USING (pid)"""
_VALID = "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid::regclass::text = ANY(%s)"
_COUNTED = "SELECT COALESCE(sum(count), 0) FROM daily_counts WHERE series = 'sign_ins'"


def value(connection: psycopg.Connection[Any], statement: str, *parameters: object) -> Any:
    row = connection.execute(statement, parameters).fetchone()
    return row[0] if row else None


def process_with_port(servers: Sequence[LiveServer], port: int) -> LiveServer | None:
    """The server one of whose processes has a connection from `port`."""
    for server in servers:
        with contextlib.suppress(psutil.NoSuchProcess):
            main = psutil.Process(server.process.pid)
            for process in [main, *main.children(recursive=True)]:
                if any(each.laddr.port == port for each in process.net_connections("tcp")):
                    return server
    return None


def builder(connection: psycopg.Connection[Any], servers: Sequence[LiveServer]) -> LiveServer | None:
    """The server that builds a search index now."""
    port = value(connection, _BUILDER)
    return None if port is None else process_with_port(servers, port)


def starts(connection: psycopg.Connection[Any], minutes: range) -> Counter[tuple[str, int]]:
    """(Task, minute) → number of starts."""
    rows = connection.execute(
        "SELECT task, minute FROM started_jobs WHERE minute = ANY(%s) AND task = ANY(%s)",
        (list(minutes), list(PERIODIC_TASKS)),
    ).fetchall()
    return Counter((task, minute) for task, minute in rows)


def check_periodic_tasks(connection: psycopg.Connection[Any]) -> None:
    """Each task starts once in each of the next whole minutes."""
    first = int(time.time()) // 60 + 1
    minutes = range(first, first + MINUTES)
    # A job starts within the polling interval of a worker.
    time.sleep(60 * minutes.stop - time.time() + 10)
    assert starts(connection, minutes) == Counter((task, minute) for task in PERIODIC_TASKS for minute in minutes)


def failed_jobs(port: int) -> list[float]:
    """The samples of the number of failed jobs in the metrics of a server."""
    text = requests.get(f"http://127.0.0.1:{port}/", timeout=60).text
    return [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "auth_queue_jobs" and sample.labels["state"] == "failed"
    ]


def built_indexes(servers: Sequence[LiveServer]) -> int:
    return sum(server.log.read_text(errors="replace").count("search index built") for server in servers)


def check(*, number: int = 6) -> None:
    """Raises AssertionError."""
    metrics_ports = [ports.free_port() for _ in range(number)]
    envs = [
        {
            "AUTH_METRICS_ENABLED": "true",
            "AUTH_METRICS_EXPORTER": "prometheus",
            "AUTH_OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
            "AUTH_OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        }
        for port in metrics_ports
    ]
    env = {"AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST": "true"}
    with (
        scenarios.folders() as folder,
        postgresql.running_pair(scenarios.postgresql_programs()) as pair,
        pair.primary.connect() as connection,
    ):
        installation.migrate(pair)
        connection.execute(_LOG_OF_JOBS)
        connection.execute(_USERS, (USERS,))
        connection.execute(_ENTRIES, (ENTRIES,))
        with installation.running(folder, pair=pair, env=env, server_envs=envs, has_worker=False) as running:
            robust.wait_until(lambda: builder(connection, running.servers), "the server that builds the indexes")
            killed = builder(connection, running.servers)
            assert killed is not None
            killed.kill()
            others = [server for server in running.servers if server is not killed]
            check_periodic_tasks(connection)
            assert value(connection, _COUNTED) == ENTRIES

            # The servers look for missing indexes at their start, and once an hour.
            replaced = running.replace(killed)
            replaced.wait()
            robust.wait_until(lambda: value(connection, _VALID, list(INDEXES)) == len(INDEXES), "the indexes")
            # The statement of the killed server may have completed its index.
            assert len(INDEXES) - 1 <= built_indexes([*others, replaced]) <= len(INDEXES)

            connection.execute(_FAILED_JOBS, (FAILED_JOBS,))
            assert [failed_jobs(port) for port in metrics_ports] == [[FAILED_JOBS]] * number
