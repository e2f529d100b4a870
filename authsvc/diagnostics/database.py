"""What `manage.py doctor` finds out about the database: version, rights, migrations, connections, its clock."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from authsvc import clock, conf, jobs
from authsvc.db.embedded import EmbeddedDatabaseFailed
from authsvc.diagnostics import readiness
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, warning
from authsvc.server import serving

_OLDEST = 140_000
_MOST_SKEW = timedelta(seconds=5)


class DatabaseDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        connection = connections.create_connection(DEFAULT_DB_ALIAS)
        try:
            with connection.cursor() as cursor:
                yield _version(cursor)
                yield _rights(cursor)
                yield _migrations(cursor)
                yield _queue(cursor)
                yield _room(cursor)
                yield _pooler(connection, cursor)
                yield _time(cursor)
        except (DatabaseError, EmbeddedDatabaseFailed) as error:
            message = " ".join(str(error).split())
            yield failure(
                "database", message, "Check DATABASE_URL, that PostgreSQL runs, and that it lets this host in."
            )
        finally:
            connection.close()


def _version(cursor: CursorWrapper) -> CheckResult:
    number, name = _row(cursor, "SELECT current_setting('server_version_num')::int, current_setting('server_version')")
    if number < _OLDEST:
        return failure("database version", f"PostgreSQL {name}", "Upgrade PostgreSQL to 14 or newer.")
    return ok("database version", f"PostgreSQL {name}")


def _rights(cursor: CursorWrapper) -> CheckResult:
    schema, may_create, role = _row(
        cursor,
        "SELECT current_schema(), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), current_user",
    )
    if schema is None:
        return failure(
            "database rights",
            "no schema of the search path exists",
            "CREATE SCHEMA, or mend search_path in DATABASE_URL.",
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
        message = f"{len(missing)} are not applied, the first: {missing[0]}"
        return warning("migrations", message, "Start the server, or run manage.py migrate.")
    return ok("migrations", "all are applied")


def _queue(cursor: CursorWrapper) -> CheckResult:
    [is_there] = _row(cursor, "SELECT to_regclass('procrastinate_jobs') IS NOT NULL")
    if not is_there:
        return warning("queue", "its tables are not there yet", "Start the server, or run manage.py migrate.")
    signs = jobs.read_worker_health(cursor)
    wait = f"the next job has been due for {signs.job_delay:.0f} s" if signs.job_delay is not None else "no job is due"
    if not signs.is_healthy:
        remedy = "Start the server with AUTH_MAILER_WORKER_ENABLED=true, or manage.py worker."
        return failure("queue", f"nobody works on it, and {wait}", remedy)
    if not signs.has_heartbeat:
        return ok("queue", f"no worker runs now, and {wait}")
    return ok("queue", f"a worker runs, and {wait}")


def _room(cursor: CursorWrapper) -> CheckResult:
    most, kept, others = _row(
        cursor,
        "SELECT current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,"
        " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND application_name <> current_setting('application_name'))",
    )
    needed = serving.connections(conf.current())
    free = most - kept - others
    message = f"this server may hold {needed}, and {free} of {most} are free for it"
    if needed > free:
        return warning(
            "connections",
            message,
            "Raise max_connections of PostgreSQL, or set AUTH_DB_MAX_POOL_SIZE or WEB_CONCURRENCY.",
        )
    return ok("connections", message)


def _pooler(connection: BaseDatabaseWrapper, cursor: CursorWrapper) -> CheckResult:
    """Between us and the database is somebody else when it sees another port than ours."""
    [seen] = _row(cursor, "SELECT client_port FROM pg_stat_activity WHERE pid = pg_backend_pid()")
    ours = _own_port(connection.connection.fileno())
    if ours is None or seen is None or ours == seen:
        return ok("pooler", "none that could be seen")
    if conf.current().database.prepared_statements_enabled:
        return warning(
            "pooler",
            "something stands between this host and the database, and prepared statements are on",
            "Behind a pooler in transaction mode set AUTH_DB_PREPARED_STATEMENTS_ENABLED=false;"
            " in session mode, or behind address translation, all is well.",
        )
    return ok("pooler", "something stands between this host and the database, and prepared statements are off")


def _own_port(number: int) -> int | None:
    """The port of our end of a connection; None for a local socket, which has none."""
    with socket.socket(fileno=os.dup(number)) as ours:
        if ours.family == socket.AF_UNIX:
            return None
        return int(ours.getsockname()[1])


def _time(cursor: CursorWrapper) -> CheckResult:
    before = clock.now()
    [theirs] = _row(cursor, "SELECT clock_timestamp()")
    after = clock.now()
    skew = max(before - theirs, theirs - after, timedelta())
    if skew > _MOST_SKEW:
        return failure(
            "clock",
            f"{skew.total_seconds():.0f} s apart from the database's",
            "Keep both clocks by NTP (chrony, timesyncd).",
        )
    return ok("clock", f"agrees with the database's within {(after - before + skew).total_seconds():.1f} s")


def _row(cursor: CursorWrapper, sql: str) -> tuple[Any, ...]:
    cursor.execute(sql)
    return tuple(cursor.fetchone() or ())
