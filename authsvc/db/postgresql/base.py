"""The database back end: health checks that cost no statement, and embedded databases started at first use."""

from __future__ import annotations

import select
from pathlib import Path
from typing import Any, Self

import psycopg
from django.db.backends.postgresql import base, schema
from psycopg import conninfo

from authsvc.db import embedded
from authsvc.db.postgresql import statements
from authsvc.observability import metrics

LOCK_SECONDS = 2
"""How long a migration waits for a table that others use, because everybody who comes later waits behind it."""


class SchemaEditor(schema.DatabaseSchemaEditor):
    """What a migration changes tables through.

    Its limits belong to its transaction, not to a connection that a pooler may give to others. Without one it builds
    indexes concurrently, which waits without being in the way, and would begin anew after each attempt.
    """

    def __enter__(self) -> Self:
        entered = super().__enter__()
        if self.atomic_migration:
            self.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            self.execute("SET LOCAL statement_timeout = 0")
        return entered


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = SchemaEditor

    def get_connection_params(self) -> dict[str, Any]:
        """Django's parameters; an embedded database is started or joined here, when somebody is about to connect."""
        parameters = super().get_connection_params()
        host = parameters.get("host", "")
        if host.startswith(embedded.SCHEME):
            where = conninfo.conninfo_to_dict(embedded.start(Path(host.removeprefix(embedded.SCHEME))))
            parameters |= {"host": where["host"], "port": where["port"]}
        if cursor := statements.wanted():
            parameters["cursor_factory"] = cursor
        return parameters

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            made = super().get_new_connection(conn_params)
        except psycopg.Error:
            metrics.CONNECT_ERRORS.add()
            raise
        metrics.CONNECTIONS.change(1)
        return made

    def _close(self) -> None:
        if self.connection is not None:
            metrics.CONNECTIONS.change(-1)
        super()._close()  # type: ignore[misc]  # Django's, which the stubs leave out

    def close_if_unusable_or_obsolete(self) -> None:
        """Called around every request and job: asks about the connection's health right then.

        Django waits for the first statement, and does not ask before one that goes past its own cursor.
        """
        super().close_if_unusable_or_obsolete()
        self.close_if_health_check_failed()

    def is_usable(self) -> bool:
        """False when the server has ended the connection, asked once per request.

        PostgreSQL says nothing on an idle connection but good-bye, so an unreadable socket needs no further question;
        what made it readable is for Django's own check, a statement, to find out.
        """
        if self.connection is None or self.connection.closed:
            return False
        socket = select.poll()
        socket.register(self.connection.fileno(), select.POLLIN)
        return not socket.poll(0) or super().is_usable()
