"""The database backend: health checks without a statement, response timeouts, order of hosts, embedded databases."""

from __future__ import annotations

import math
import select
import time
from pathlib import Path
from typing import Any, Self

import psycopg
from django.db.backends.postgresql import base, schema
from psycopg import conninfo, errors

from authsvc import conf
from authsvc.db import embedded
from authsvc.db.postgresql import Server, response_timeout, servers_of
from authsvc.db.postgresql.client import DatabaseClient
from authsvc.db.postgresql.sql_log import logging_cursor
from authsvc.db.timestamps import TimestampLoader

# 40 s are longer than a hook may take in the transaction of a sign-in. On some systems, such as macOS with
# PostgreSQL 14, the server cannot check connections and refuses the setting.
SET_UP_SESSION = """
    SELECT set_config('idle_in_transaction_session_timeout', '40s', false),
           set_config('client_connection_check_interval', CASE WHEN version() ~ 'linux' THEN '5s' ELSE '0' END, false),
           set_config('tcp_keepalives_idle', '15', false),
           set_config('tcp_keepalives_interval', '5', false),
           set_config('tcp_keepalives_count', '3', false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('datestyle', 'ISO', false)
"""
"""Lets PostgreSQL end transactions and statements of a process that is frozen, lost, or has closed its connection.

Their locks would stop other processes, and each keeps a connection. By default they stay for ever, or for two hours.
The last two replace defaults of a role or a database under which concurrent requests fail, and times cannot be read.
"""
_LIMIT_LOCKS = "SELECT set_config('lock_timeout', %s, false) WHERE current_setting('lock_timeout') = '0'"
LOCK_SECONDS = 2
"""Longest wait of a migration for a table lock, because later statements on the table queue behind it."""


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Changes tables for migrations, with limits that last as long as the migration's transaction.

    A migration without a transaction gets no limits: it builds indexes concurrently, which blocks no other statement
    and would start again after every attempt.
    """

    def __enter__(self) -> Self:
        entered = super().__enter__()
        if self.atomic_migration:
            self.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            self.execute("SET LOCAL statement_timeout = 0")
        return entered


class ResponseTimedOut(psycopg.OperationalError):
    """The server has not answered in time."""


_timed_out_at: dict[Server, float] = {}
"""The time of `time.monotonic` at which each server last failed to answer."""


class LimitedConnection(psycopg.Connection[Any]):
    """Waits for the server at most as long as `response_timeout` permits, and closes itself then."""

    @property
    def server(self) -> Server:
        return self.info.host, str(self.info.port)

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        seconds = response_timeout.seconds()
        if seconds is None or arguments or options:
            return super().wait(gen, *arguments, **options)
        try:
            return super().wait(gen, timeout=seconds)
        except errors._WaitTimeout:
            # The statement may still run, so nothing else can use the connection.
            _timed_out_at[self.server] = time.monotonic()
            self.pgconn.finish()
            raise ResponseTimedOut(f"the server has not answered for {seconds:g} s") from None


_READ_ONLY = ("in_hot_standby", "default_transaction_read_only")
"""Settings that the server reports when they change."""
_last_servers: dict[tuple[str, str], Server] = {}
"""`HOST` and `PORT` of a URL with several servers → the server that this process has connected to last."""


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = SchemaEditor
    client_class = DatabaseClient
    _lock_seconds: float | None = None

    def get_connection_params(self) -> dict[str, Any]:
        """Django's parameters; starts or joins the server of an embedded database."""
        parameters = super().get_connection_params()
        host = parameters.get("host", "")
        if host.startswith(embedded.SCHEME):
            address = conninfo.conninfo_to_dict(embedded.start(Path(host.removeprefix(embedded.SCHEME))))
            parameters |= {"host": address["host"], "port": address["port"]}
        elif len(servers := servers_of(self.settings_dict)) > 1:
            # Connections would wait for each host that is down and comes before this server.
            last = _last_servers.get(self._url_hosts)
            servers.sort(key=lambda server: server != last)
            parameters["host"], parameters["port"] = (",".join(values) for values in zip(*servers, strict=True))
        if conf.current().logging.sql != "none":
            parameters["cursor_factory"] = logging_cursor(parameters["cursor_factory"])
        return parameters

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        connection.adapters.register_loader("timestamptz", TimestampLoader)
        # Django and the backend with metrics choose the class.
        connection.__class__ = LimitedConnection
        self._opened_at, self._server = time.monotonic(), connection.server
        if len(servers_of(self.settings_dict)) > 1:
            _last_servers[self._url_hosts] = self._server
        return connection

    def init_connection_state(self) -> None:
        super().init_connection_state()
        self._lock_seconds = response_timeout.lock_seconds()
        if conf.current().database.has_sessions:
            with self.cursor() as cursor:
                cursor.execute(SET_UP_SESSION)
                if self._lock_seconds is not None:
                    cursor.execute(_LIMIT_LOCKS, [f"{math.ceil(self._lock_seconds * 1000)}ms"])

    @property
    def _url_hosts(self) -> tuple[str, str]:
        return self.settings_dict["HOST"], self.settings_dict["PORT"]

    def close_if_unusable_or_obsolete(self) -> None:
        """Check the connection's health at once; called around every request and job.

        Django checks before the first statement, but not before one that bypasses its cursor.
        """
        super().close_if_unusable_or_obsolete()
        self.close_if_health_check_failed()

    def is_usable(self) -> bool:
        """False when the server has closed the connection, has become a standby or read-only, or may be frozen.

        A server that has not answered another connection would hold each request that begins with an idle one. A reload
        that changes the time for which requests wait for a lock makes the connection unusable too.

        PostgreSQL sends nothing on an idle connection except its end, so a socket without input needs no statement.
        Django's own check, a statement, decides about a socket with input.
        """
        if self.connection is None or self.connection.closed or self._opened_at <= _timed_out_at.get(self._server, 0):
            return False
        if self._lock_seconds != response_timeout.lock_seconds():
            return False
        # Only after an error: connections to replicas are read-only by design.
        if self.errors_occurred and any(self.connection.info.parameter_status(name) == "on" for name in _READ_ONLY):
            return False
        socket = select.poll()
        socket.register(self.connection.fileno(), select.POLLIN)
        return not socket.poll(0) or super().is_usable()
