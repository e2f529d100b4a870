"""The cursors that are used when somebody wants to know of statements: how long they took, or what they say."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Self
from uuid import UUID

import psycopg
from django.db.backends.postgresql.base import ServerBindingCursor

from authsvc import conf
from authsvc.observability import metrics, spans

_TOLD = (bool, int, float, UUID, date, datetime, timedelta)
_LOST = "08"
"""The class of SQLSTATE of a connection that is no more, for errors that come without one."""

logger = logging.getLogger("authsvc.sql")


class WatchedCursor(ServerBindingCursor):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        try:
            with spans.statement(query):
                began = time.perf_counter()
                try:
                    super().execute(query, params, **options)  # type: ignore[misc]  # psycopg's, not in the stubs
                finally:
                    metrics.STATEMENT_SECONDS.observe(time.perf_counter() - began)
        except psycopg.Error as error:
            metrics.STATEMENT_ERRORS.add((error.sqlstate or _LOST)[:2])
            raise
        return self


class LoggingCursor(WatchedCursor):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        try:
            return super().execute(query, params, **options)
        finally:
            fields: dict[str, object] = {"component": "sql"}
            if conf.current().logging.sql == "all":
                fields["statement_args"] = _told(params)
            logger.info("%s", query, extra=fields)


def wanted() -> type[ServerBindingCursor] | None:
    """The cursor for a new connection; None where nobody wants to know."""
    config = conf.current()
    if config.logging.sql != "none":
        return LoggingCursor
    return WatchedCursor if config.telemetry.metrics or config.telemetry.traces else None


def _told(value: Any) -> object:
    """An argument as it may be logged. A text may be a key, a code or a hash, so that only its length is told."""
    if value is None or isinstance(value, _TOLD):
        return value
    if isinstance(value, Mapping):
        return {str(name): _told(member) for name, member in value.items()}
    if isinstance(value, str | bytes):
        return f"<{type(value).__name__} of {len(value)}>"
    if isinstance(value, Sequence):
        return [_told(member) for member in value]
    return f"<{type(value).__name__}>"
