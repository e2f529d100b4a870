"""Database checks of `manage.py doctor`: version, rights, migrations, queue, connections, pooler, clock."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

from authsvc import conf, jobs
from authsvc.db.embedded import EmbeddedDatabaseFailed
from authsvc.diagnostics import readiness
from authsvc.diagnostics.registry import CheckOutcome, CheckResult, DiagnosticContext, failure, ok, warning
from authsvc.security import encrypted_columns
from authsvc.server import serving

_MIN_VERSION = 140_000
_MAX_SKEW = timedelta(seconds=5)


class DatabaseDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        connection = connections.create_connection(DEFAULT_DB_ALIAS)
        try:
            with connection.cursor() as cursor:
                yield _version(cursor)
                yield _rights(cursor)
                yield (migrations := _migrations(cursor))
                if migrations.outcome == CheckOutcome.OK:
                    yield _encryption_keys()
                yield _queue(cursor)
                yield _connections(cursor)
                yield _pooler(connection, cursor)
                yield _clock(cursor)
        except (DatabaseError, EmbeddedDatabaseFailed) as error:
            message = " ".join(str(error).split())
            yield failure(
                "database", message, "Check DATABASE_URL, that PostgreSQL runs, and that pg_hba.conf allows this host."
            )
        finally:
            connection.close()


def _version(cursor: CursorWrapper) -> CheckResult:
    number, name = _row(cursor, "SELECT current_setting('server_version_num')::int, current_setting('server_version')")
    if number < _MIN_VERSION:
        return failure("database version", f"PostgreSQL {name}", "Upgrade PostgreSQL to 14 or newer.")
    return ok("database version", f"PostgreSQL {name}")


def _rights(cursor: CursorWrapper) -> CheckResult:
    schema, may_create, role, is_read_only = _row(
        cursor,
        "SELECT current_schema(), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), current_user,"
        " current_setting('transaction_read_only')::boolean",
    )
    if is_read_only:
        return failure(
            "database rights",
            "the server is a standby or accepts no writes",
            "Point DATABASE_URL to the primary, or list all servers: the service uses the one that accepts writes.",
        )
    if schema is None:
        return failure(
            "database rights",
            "no schema of the search path exists",
            "CREATE SCHEMA, or correct search_path in DATABASE_URL.",
        )
    if not may_create:
        return failure(
            "database rights",
            f"{role} may not create tables in the schema {schema}, which migrations need",
            f"As the owner: GRANT CREATE, USAGE ON SCHEMA {schema} TO {role};",
        )
    return ok("database rights", f"{role} may create tables in the schema {schema}")


def _migrations(cursor: CursorWrapper) -> CheckResult:
    missing = sorted(f"{app}.{name}" for app, name in readiness.missing_migrations(cursor))
    if missing:
        message = f"{len(missing)} are not applied, first {missing[0]}"
        return warning("migrations", message, "Start the server, or run manage.py migrate.")
    return ok("migrations", "all migrations are applied")


def _encryption_keys() -> CheckResult:
    unknown = encrypted_columns.unknown_keys()
    if not unknown:
        return ok("encryption keys", "every key of a sample of the encrypted values is configured")
    values = ", ".join(f"{column} with {key_id}" for column, key_id in unknown)
    remedy = "Add the keys to AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS."
    return failure("encryption keys", f"values are encrypted with keys that are not configured: {values}", remedy)


def _queue(cursor: CursorWrapper) -> CheckResult:
    [exists] = _row(cursor, "SELECT to_regclass('procrastinate_jobs') IS NOT NULL")
    if not exists:
        return warning("queue", "its tables do not exist yet", "Start the server, or run manage.py migrate.")
    health = jobs.read_worker_health(cursor)
    wait = (
        f"the next job has been due for {health.job_delay:.0f} s" if health.job_delay is not None else "no job is due"
    )
    if not health.is_healthy:
        remedy = "Start the server with AUTH_MAILER_WORKER_ENABLED=true, or manage.py worker."
        return failure("queue", f"no worker processes it, and {wait}", remedy)
    if not health.has_heartbeat:
        return ok("queue", f"no worker is running, and {wait}")
    return ok("queue", f"a worker is running, and {wait}")


def _connections(cursor: CursorWrapper) -> CheckResult:
    limit, reserved, others = _row(
        cursor,
        "SELECT current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,"
        " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND application_name <> current_setting('application_name'))",
    )
    needed = serving.connections(conf.current())
    free = limit - reserved - others
    message = f"this server needs up to {needed}, and {free} of {limit} are available"
    if needed > free:
        return warning(
            "connections",
            message,
            "Raise max_connections of PostgreSQL, or set AUTH_DB_MAX_POOL_SIZE or WEB_CONCURRENCY.",
        )
    return ok("connections", message)


def _pooler(connection: BaseDatabaseWrapper, cursor: CursorWrapper) -> CheckResult:
    """A pooler or address translation is present if the database sees a port other than the local one."""
    [client_port] = _row(cursor, "SELECT client_port FROM pg_stat_activity WHERE pid = pg_backend_pid()")
    local = _local_port(connection.connection.fileno())
    if local is None or client_port is None or local == client_port:
        return ok("pooler", "none detected")
    if conf.current().database.has_sessions:
        return warning(
            "pooler",
            "a pooler or address translation is in use, and the service uses sessions",
            "Behind a pooler in transaction mode set AUTH_DB_TRANSACTION_POOLING_ENABLED=true (PgBouncer 1.22 or later)"
            " or AUTH_DB_PREPARED_STATEMENTS_ENABLED=false; in session mode, or with address translation only, no"
            " change is needed.",
        )
    timeout, role = _row(
        cursor, "SELECT current_setting('idle_in_transaction_session_timeout'), quote_ident(current_user)"
    )
    if timeout == "0":
        return warning(
            "pooler",
            "a pooler is in use, and transactions of a frozen server would keep their locks",
            f"ALTER ROLE {role} SET idle_in_transaction_session_timeout = '40s';"
            f" ALTER ROLE {role} SET client_connection_check_interval = '5s';",
        )
    return ok("pooler", "a pooler or address translation is in use, and the service uses no sessions")


def _local_port(descriptor: int) -> int | None:
    """The local port of a connection; None for a Unix socket."""
    with socket.socket(fileno=os.dup(descriptor)) as local:
        if local.family == socket.AF_UNIX:
            return None
        return int(local.getsockname()[1])


def _clock(cursor: CursorWrapper) -> CheckResult:
    before = timezone.now()
    [database_time] = _row(cursor, "SELECT clock_timestamp()")
    after = timezone.now()
    skew = max(before - database_time, database_time - after, timedelta())
    if skew > _MAX_SKEW:
        return failure(
            "clock",
            f"differs by {skew.total_seconds():.0f} s from the database's clock",
            "Synchronize both clocks with NTP (chrony, timesyncd).",
        )
    return ok(
        "clock", f"differs from the database's clock by less than {(after - before + skew).total_seconds():.1f} s"
    )


def _row(cursor: CursorWrapper, sql: str) -> tuple[Any, ...]:
    cursor.execute(sql)
    return tuple(cursor.fetchone() or ())
