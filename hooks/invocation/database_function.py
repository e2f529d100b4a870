"""Calls a hook that is a database function."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from django.db import Error as DatabaseError
from django.db import connection, transaction
from psycopg import sql

from authsvc.api.exception_handler import is_raised_by_function
from hooks import errors

logger = logging.getLogger(__name__)


def call(uri: str, function: tuple[str, str], *, payload: str, deadline: float, timeout: timedelta) -> str | None:
    """The JSON text of the function; None for NULL or no row.

    `deadline` is on the monotonic clock. Raises HookFunctionRefused, HookErrored, and HookTimedOut for a deadline that
    has passed before the call.

    Runs in the caller's transaction, in a savepoint, or in one of its own: the time limit holds in transactions only.
    """
    # The parameter has no type, so the function may take jsonb, json or text.
    statement = sql.SQL("SELECT ({}.{}(%s))::text").format(*map(sql.Identifier, function))
    milliseconds = int((deadline - time.monotonic()) * 1000)
    if milliseconds <= 0:
        raise errors.HookTimedOut.after(timeout)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {milliseconds:d}")
            cursor.execute(statement, [payload])
            row = cursor.fetchone()
            # The savepoint, once released, would leave the limit to the rest of the transaction.
            cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
    except DatabaseError as error:
        if is_raised_by_function(error):
            raise errors.HookFunctionRefused(uri, error) from None
        _log_failure(uri, error)
        raise errors.HookErrored(uri) from None
    return row[0] if row else None


def _log_failure(uri: str, error: DatabaseError) -> None:
    """Log the kind of a database error. Its text may quote the payload, which contains codes and links."""
    cause = error.__cause__ or error
    fields = {
        "component": "auth_hook",
        "url": uri,
        "error": type(cause).__name__,
        "sqlstate": getattr(cause, "sqlstate", None) or "",
    }
    logger.error("hook function failed", extra=fields)
