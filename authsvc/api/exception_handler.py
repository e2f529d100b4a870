"""Converts exceptions to error responses, in the format of the API version that the client requests."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from django.apps import apps
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions as drf
from rest_framework.response import Response

from authsvc import conf
from authsvc.api.renderers import NO_STORE, JSONRenderer
from authsvc.errors import (
    ApiError,
    BadJson,
    BodyTooLarge,
    DatabaseUnavailable,
    EmailRateExceeded,
    MethodNotAllowed,
    NotFound,
    OAuthError,
    RequestRateExceeded,
    RequestTimedOut,
    UnexpectedFailure,
    ValidationFailed,
)
from authsvc.observability import metrics
from authsvc.observability.routes import route_template

logger = logging.getLogger("authsvc.errors")

VERSION_HEADER = "X-Supabase-Api-Version"
VERSIONED_SINCE = "2024-01-01"
_VERSION_FORMAT = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

# SQLSTATEs of triggers that operators add to the tables; clients receive the messages of these triggers.
_TRIGGER_STATES = frozenset({"P0001", "23000", "23001", "23502", "23503", "23505", "23514", "23P01"})
_FOREIGN_KEY_VIOLATION = "23503"
_QUERY_CANCELED = "57014"
_UNAVAILABLE_STATES = (
    "08",  # connection exceptions
    "53",  # insufficient resources: connections, disk, memory
    "57P",  # the server shuts down, starts or recovers
    "25006",  # the server is read-only: a standby
    "25P03",  # the server has ended a transaction that was idle for too long
    "40001",  # a concurrent transaction has changed the row, or the standby has removed it
    "40P01",  # deadlock
    "55P03",  # another transaction has kept a lock for too long
)


class InternalServerError(ApiError):
    message = "Internal Server Error"


class FrameworkError(ApiError):
    """An exception of DRF, or of a permission or authentication class written for it, with its own status and code."""

    def __init__(self, error: drf.APIException) -> None:
        code = error.get_codes()
        super().__init__(str(error.detail))
        self.status = error.status_code
        self.error_code = code if isinstance(code, str) else error.default_code


@dataclass(frozen=True, slots=True)
class _Description:
    """The parts of an error response."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """The EXCEPTION_HANDLER of DRF: the response to every exception that a view raises.

    If the user of the access token has been deleted during the request, the response is that of a later request.
    """
    if isinstance(error, DatabaseError) and _refers_to_missing_row(error, column="user_id"):
        authenticator = getattr(context["request"], "successful_authenticator", None)
        error_type: type[ApiError] | None = getattr(authenticator, "user_not_found", None)
        error = error_type() if error_type is not None else error
    described = _describe(error, context["request"])
    if isinstance(error, MethodNotAllowed | drf.MethodNotAllowed):
        described.headers["Allow"] = ", ".join(context["view"].allowed_methods)
    if auth_header := getattr(error, "auth_header", None):
        described.headers["WWW-Authenticate"] = auth_header
    return Response(described.body, status=described.status, headers=described.headers)


def error_response(error: Exception, request: HttpRequest) -> HttpResponse:
    """The response to an exception outside of views: in middleware, while rendering, or for an unknown route."""
    described = _describe(error, request)
    return HttpResponse(
        JSONRenderer().render(described.body),
        status=described.status,
        content_type=JSONRenderer.media_type,
        headers={"Cache-Control": NO_STORE, **described.headers},
    )


def with_error(request: HttpRequest, page: HttpResponse, error: ApiError) -> HttpResponse:
    """Add the error code to the access log and `Retry-After` to the page."""
    request.META["authsvc.error_code"] = error.error_code
    if error.retry_after is not None:
        page.headers["Retry-After"] = _retry_seconds(error.retry_after)
    return page


def is_versioned(request: HttpRequest) -> bool:
    """True if the client requests API version 2024-01-01 or later."""
    version = request.headers.get(VERSION_HEADER, "")
    if not version:
        return False
    try:
        if not _VERSION_FORMAT.fullmatch(version):
            raise ValueError
        return date.fromisoformat(version) >= date(2024, 1, 1)
    except ValueError:
        logger.warning("invalid API version header, using the initial form")
        return False


def is_raised_by_function(error: DatabaseError) -> bool:
    """True for an error that a trigger or function raises for the client: known SQLSTATEs and `PTnnn`.

    A constraint that the operator has added counts too.
    """
    state = _sqlstate(error)
    return (state in _TRIGGER_STATES and not _violates_own_constraint(error)) or _status_of(state) is not None


def refusal_of_function(error: DatabaseError) -> tuple[int, str]:
    """Status and message of an error that a trigger or function has raised for the client."""
    diagnostic = _diagnostic(error)
    return _status_of(_sqlstate(error)) or 500, (diagnostic and diagnostic.message_primary) or ""


def is_unavailable(error: DatabaseError) -> bool:
    """True for an error that another attempt may avoid.

    The connection is lost, the server accepts no write, or a concurrent request is in conflict: it may have deleted the
    row to which a new one refers.
    """
    state = _sqlstate(error)
    if _refers_to_missing_row(error):
        return True
    return state.startswith(_UNAVAILABLE_STATES) if state else isinstance(error, InterfaceError | OperationalError)


def to_api_error(error: BaseException) -> ApiError:
    """The ApiError for an exception of DRF, of Django or of any other kind. Logs unexpected exceptions."""
    match error:
        case ApiError():
            if error.status >= 500 and error.__cause__ is not None:
                logger.error("request failed", exc_info=error)
            return error
        case Http404() | drf.NotFound():
            return NotFound()
        case RecursionError():
            return BadJson("nested too deeply")  # one parser accepts it, another cannot write it
        case drf.MethodNotAllowed():
            return MethodNotAllowed()
        case drf.Throttled():
            return RequestRateExceeded(retry_after=getattr(error, "wait", None))
        case drf.ParseError() | drf.ValidationError():
            return ValidationFailed(str(error))
        case drf.APIException():
            return FrameworkError(error)
        case DjangoPermissionDenied():
            return FrameworkError(drf.PermissionDenied())
        case RequestDataTooBig():
            return BodyTooLarge()
        case BadRequest() | SuspiciousOperation():
            return ValidationFailed(str(error))
        case DatabaseError():
            if _sqlstate(error) == _QUERY_CANCELED:
                return RequestTimedOut()
            logger.error("database error", extra=_log_fields(error))
            return DatabaseUnavailable() if is_unavailable(error) else UnexpectedFailure()
    logger.error("request panicked", exc_info=error, extra={"panic": f"{type(error).__name__}: {error}"})
    return InternalServerError()


def _describe(error: Exception, request: HttpRequest) -> _Description:
    """The response to an exception. Sets `authsvc.error_code` and `authsvc.error` of the request for the access log."""
    versioned = is_versioned(request)
    if isinstance(error, OAuthError):
        if error.__cause__ is not None:
            to_api_error(error.__cause__)  # logs the cause
        code = error.error
        described = _Description(error.status, {"error": code, "error_description": error.description}, {})
    else:
        api_error = to_api_error(error)
        code = api_error.error_code
        if isinstance(api_error, EmailRateExceeded):
            metrics.MAIL_QUOTA_REFUSALS.labels(route_template(request)).inc()
        trigger = _trigger_message(error) if not versioned else None
        if trigger is not None:
            described = _Description(*trigger, {})
        else:
            body = _body(api_error, request=request, versioned=versioned)
            described = _Description(api_error.status, body, {"X-Sb-Error-Code": code})
        if api_error.retry_after is not None:
            described.headers["Retry-After"] = _retry_seconds(api_error.retry_after)
    if versioned:
        described.headers[VERSION_HEADER] = VERSIONED_SINCE
    request.META["authsvc.error_code"] = code
    request.META["authsvc.error"] = _cause(error)
    return described


def _retry_seconds(seconds: float) -> str:
    """`Retry-After`: whole seconds, rounded up."""
    return str(int(seconds + 0.999))


def _cause(error: Exception) -> str:
    """The underlying exception for the log. A database error is only named, because its text may quote a row."""
    cause = error.__cause__ if isinstance(error, ApiError | OAuthError | drf.APIException) else error
    if cause is None:
        return ""
    name = type(cause).__name__
    return name if isinstance(cause, DatabaseError) else f"{name}: {cause}"


def _body(error: ApiError, *, request: HttpRequest, versioned: bool) -> dict[str, Any]:
    further = error.extra()
    # Hints are for developers: a server without API page answers exactly as the protocol describes.
    if error.hint and conf.current().has_api_page:
        further["hint"] = error.hint
    if versioned:
        return {"code": error.error_code, "message": error.message, **further}
    body: dict[str, Any] = {"code": error.status, "error_code": error.error_code, "msg": error.message}
    request_id = request.META.get("authsvc.request_id")
    if error.status >= 500 and request_id:
        body["error_id"] = request_id
    return body | further


def _sqlstate(error: BaseException) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""


def _refers_to_missing_row(error: DatabaseError, *, column: str = "") -> bool:
    """True if a statement of the service stores a reference, in `column` if given, to a row that no longer exists."""
    if _sqlstate(error) != _FOREIGN_KEY_VIOLATION or not _violates_own_constraint(error):
        return False
    diagnostic = _diagnostic(error)
    return not column or diagnostic.constraint_name == f"{diagnostic.table_name}_{column}_fkey"


def _violates_own_constraint(error: DatabaseError) -> bool:
    """True if a statement of the service itself, not of a trigger or function, violates a constraint of its tables."""
    diagnostic = _diagnostic(error)
    if diagnostic is None or diagnostic.context:
        return False
    # Without a name, a column must not be null.
    name = diagnostic.constraint_name or diagnostic.column_name
    return (diagnostic.table_name, name) in _own_constraints()


@cache
def _own_constraints() -> frozenset[tuple[str, str | None]]:
    """Tables and names of the constraints of the models, and of their columns that are not null."""
    own: set[tuple[str, str | None]] = set()
    for model in apps.get_models():
        table = model._meta.db_table
        own.update((table, constraint.name) for constraint in model._meta.constraints)
        for column in model._meta.concrete_fields:
            if column.remote_field:
                own.add((table, f"{table}_{column.column}_fkey"))
            if not column.null:
                own.add((table, column.column))
    return frozenset(own)


def _diagnostic(error: BaseException) -> Any:
    """The fields of PostgreSQL's error message; None for other errors."""
    return getattr(error.__cause__, "diag", None)


def _log_fields(error: DatabaseError) -> dict[str, str]:
    """The primary message only: the full text of PostgreSQL quotes rows, which contain hashes and keys."""
    diagnostic = _diagnostic(error)
    return {
        "error": f"{type(error).__name__}: {(diagnostic and diagnostic.message_primary) or error}",
        "sqlstate": _sqlstate(error),
        "stack": "".join(traceback.format_tb(error.__traceback__)),
    }


def _trigger_message(error: Exception) -> tuple[int, dict[str, str]] | None:
    """Status and body for an error that a trigger or function raises for the client.

    None for other errors, and for those without a known SQLSTATE or `PTnnn`.
    """
    if isinstance(error, ApiError) and error.raised_by_function is not None:
        error = error.raised_by_function
    if not isinstance(error, DatabaseError):
        return None
    state = _sqlstate(error)
    if not is_raised_by_function(error):
        return None
    diagnostic = _diagnostic(error)
    status, message = refusal_of_function(error)
    body = {"code": state, "message": message}
    if diagnostic and diagnostic.message_hint:
        body["hint"] = diagnostic.message_hint
    # A constraint, unlike a trigger, names its table; its detail quotes the row.
    if diagnostic and diagnostic.message_detail and not diagnostic.table_name:
        body["detail"] = diagnostic.message_detail
    return status, body


def _status_of(state: str) -> int | None:
    """The HTTP status in an SQLSTATE `PTnnn`; None for any other."""
    is_status = len(state) == 5 and state.startswith("PT") and state[2:].isdigit() and 400 <= int(state[2:]) <= 599
    return int(state[2:]) if is_status else None
