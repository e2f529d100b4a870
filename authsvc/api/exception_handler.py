"""The one place where an error becomes an answer, in the form the client's API version asks for."""

from __future__ import annotations

import logging
import re
import traceback
from datetime import date
from typing import Any

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework.exceptions import APIException
from rest_framework.exceptions import MethodNotAllowed as DrfMethodNotAllowed

from authsvc.api.renderers import Answer
from authsvc.errors import (
    ApiError,
    BadJson,
    BodyTooLarge,
    EmailRateExceeded,
    MethodNotAllowed,
    NotFound,
    OAuthError,
    RequestTimedOut,
    UnexpectedFailure,
    ValidationFailed,
)
from authsvc.observability import metrics
from authsvc.observability.routes import route_template

logger = logging.getLogger("authsvc.errors")

VERSION_HEADER = "X-Supabase-Api-Version"
VERSIONED_SINCE = "2024-01-01"
_VERSION_FORM = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

# Raised by triggers an operator put on our tables; their words are meant for the client.
_TRIGGER_STATES = frozenset({"P0001", "23000", "23001", "23502", "23503", "23505", "23514", "23P01"})
_QUERY_CANCELED = "57014"


class InternalServerError(ApiError):
    message = "Internal Server Error"


def is_versioned(request: HttpRequest) -> bool:
    """Whether the client asked for the envelope of 2024-01-01 or later."""
    asked = request.headers.get(VERSION_HEADER, "")
    if not asked:
        return False
    try:
        if not _VERSION_FORM.fullmatch(asked):
            raise ValueError
        return date.fromisoformat(asked) >= date(2024, 1, 1)
    except ValueError:
        logger.warning("invalid API version header, using the initial form")
        return False


def error_response(error: Exception, request: HttpRequest) -> HttpResponse:
    """The response to any exception; what is not an answer of ours is logged and hidden behind a plain 500."""
    versioned = is_versioned(request)
    response: HttpResponse
    if isinstance(error, OAuthError):
        if error.__cause__ is not None:
            to_api_error(error.__cause__)  # into the log
        response = Answer({"error": error.error, "error_description": error.description}, status=error.status)
        code = error.error
    else:
        known = to_api_error(error)
        code = known.error_code
        if isinstance(known, EmailRateExceeded):
            metrics.MAIL_QUOTA_REFUSALS.labels(route_template(request)).inc()
        payload = _trigger_message(error) if not versioned else None
        if payload is not None:
            response = Answer(payload[1], status=payload[0])
        else:
            response = Answer(envelope(known, request=request, versioned=versioned), status=known.status)
            response["X-Sb-Error-Code"] = code
        if known.retry_after is not None:
            response["Retry-After"] = str(int(known.retry_after + 0.999))
    if versioned:
        response[VERSION_HEADER] = VERSIONED_SINCE
    request.META["authsvc.error_code"] = code
    request.META["authsvc.error"] = _cause(error)
    return response


def _cause(error: Exception) -> str:
    """What lies behind an answer, for the log; the words of a database may quote a row."""
    cause = error if not isinstance(error, ApiError | OAuthError) else error.__cause__
    if cause is None:
        return ""
    name = type(cause).__name__
    return name if isinstance(cause, DatabaseError) else f"{name}: {cause}"


def envelope(error: ApiError, *, request: HttpRequest, versioned: bool) -> dict[str, Any]:
    if versioned:
        return {"code": error.error_code, "message": error.message, **error.extra()}
    body: dict[str, Any] = {"code": error.status, "error_code": error.error_code, "msg": error.message}
    request_id = request.META.get("authsvc.request_id")
    if error.status >= 500 and request_id:
        body["error_id"] = request_id
    return body | error.extra()


def to_api_error(error: BaseException) -> ApiError:
    """DRF's, Django's and unknown exceptions as ours; logs what nobody expected."""
    if isinstance(error, ApiError):
        if error.status >= 500 and error.__cause__ is not None:
            logger.error("request failed", exc_info=error)
        return error
    if isinstance(error, Http404):
        return NotFound()
    if isinstance(error, RecursionError):
        return BadJson("nested too deeply")  # read by one parser, and too deep for another to write
    if isinstance(error, DrfMethodNotAllowed):
        return MethodNotAllowed()
    if isinstance(error, RequestDataTooBig):
        return BodyTooLarge()
    if isinstance(error, APIException | BadRequest | SuspiciousOperation):
        return ValidationFailed(str(error))
    if isinstance(error, DatabaseError):
        if _sqlstate(error) == _QUERY_CANCELED:
            return RequestTimedOut()
        logger.error("database error", extra=_facts(error))
        return UnexpectedFailure()
    logger.error("request panicked", exc_info=error, extra={"panic": f"{type(error).__name__}: {error}"})
    return InternalServerError()


def _sqlstate(error: BaseException) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""


def _facts(error: DatabaseError) -> dict[str, str]:
    """What the log says of it: not the whole text, in which PostgreSQL quotes rows, with hashes and keys in them."""
    said: Any = getattr(error.__cause__, "diag", None)
    return {
        "error": f"{type(error).__name__}: {(said and said.message_primary) or error}",
        "sqlstate": _sqlstate(error),
        "stack": "".join(traceback.format_tb(error.__traceback__)),
    }


def _trigger_message(error: Exception) -> tuple[int, dict[str, str]] | None:
    """Status and body for an error raised in the database for the client's eyes: known SQLSTATEs and `PTnnn`."""
    if not isinstance(error, DatabaseError):
        return None
    state = _sqlstate(error)
    is_status = len(state) == 5 and state.startswith("PT") and state[2:].isdigit() and 400 <= int(state[2:]) <= 599
    if state not in _TRIGGER_STATES and not is_status:
        return None
    said: Any = getattr(error.__cause__, "diag", None)
    body = {"code": state, "message": (said and said.message_primary) or ""}
    if said and said.message_hint:
        body["hint"] = said.message_hint
    # A table is named where it was no trigger but a constraint, and then the detail quotes the row.
    if said and said.message_detail and not said.table_name:
        body["detail"] = said.message_detail
    return (int(state[2:]) if is_status else 500), body
