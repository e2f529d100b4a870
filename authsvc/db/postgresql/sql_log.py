"""The log of statements (LOG_SQL), written by the cursors of a connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from authsvc import conf

_LOGGED_TYPES = (bool, int, float, UUID, date, datetime, timedelta)

logger = logging.getLogger("authsvc.sql")


def logging_cursor(cursor_class: type[Any]) -> type[Any]:
    """A subclass of a psycopg cursor class that logs each statement, with LOG_SQL=all its arguments too."""

    class LoggingCursor(cursor_class):  # type: ignore[misc]  # any cursor class
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            try:
                return super().execute(query, params, **options)
            finally:
                fields: dict[str, object] = {"component": "sql"}
                if conf.current().logging.sql == "all":
                    fields["statement_args"] = _loggable(params)
                logger.info("%s", query, extra=fields)

    return LoggingCursor


def _loggable(value: Any) -> object:
    """An argument as it may be logged: of a text only the length, because it may be a key, a code or a hash."""
    if value is None or isinstance(value, _LOGGED_TYPES):
        return value
    if isinstance(value, Mapping):
        return {str(name): _loggable(member) for name, member in value.items()}
    if isinstance(value, str | bytes):
        return f"<{type(value).__name__} of {len(value)}>"
    if isinstance(value, Sequence):
        return [_loggable(member) for member in value]
    return f"<{type(value).__name__}>"
