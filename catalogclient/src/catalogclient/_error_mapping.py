"""Maps responses of status 400 and above to exceptions (OpenAPI, `IcebergErrorResponse`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from catalogclient import errors
from catalogclient._endpoints import Operation
from catalogclient._messages import HttpResponse
from catalogclient.errors import CatalogError

_MAX_DETAILS = 2_000
_MAX_PLAIN_MESSAGE = 200
_MESSAGE_KEYS = ("message", "Message", "detail", "error_description")
_REQUEST_IDS = ("x-request-id", "x-amzn-requestid", "x-amz-request-id", "x-correlation-id")

_BY_TYPE: dict[str, type[CatalogError]] = {
    "NoSuchWarehouseException": errors.NoSuchWarehouseError,
    "NoSuchNamespaceException": errors.NoSuchNamespaceError,
    "NoSuchTableException": errors.NoSuchTableError,
    "NoSuchIcebergTableException": errors.NoSuchTableError,
    "NoSuchViewException": errors.NoSuchViewError,
    "NoSuchFunctionException": errors.NoSuchFunctionError,
    "NoSuchPlanIdException": errors.NoSuchPlanIdError,
    "NoSuchPlanTaskException": errors.NoSuchPlanTaskError,
    "AlreadyExistsException": errors.AlreadyExistsError,
    "NamespaceNotEmptyException": errors.NamespaceNotEmptyError,
    "CommitFailedException": errors.CommitFailedError,
    "CommitStateUnknownException": errors.CommitStateUnknownError,
    "UnprocessableEntityException": errors.UnprocessableEntityError,
    "UnsupportedOperationException": errors.UnsupportedOperationError,
    "AuthenticationTimeoutException": errors.AuthenticationTimeoutError,
}
_BY_STATUS: dict[int, type[CatalogError]] = {
    400: errors.BadRequestError,
    401: errors.UnauthorizedError,
    403: errors.ForbiddenError,
    405: errors.UnsupportedOperationError,
    406: errors.UnsupportedOperationError,
    419: errors.AuthenticationTimeoutError,
    422: errors.UnprocessableEntityError,
    429: errors.TooManyRequestsError,
    501: errors.UnsupportedOperationError,
    503: errors.ServiceUnavailableError,
}


def error_from_response(response: HttpResponse, operation: Operation) -> CatalogError:
    """Return the exception for a response of status 400 or above."""
    body = parse_error_body(_body(response))
    return _error_class(response.status, body.type, operation)(
        body.message or f"Request failed with status {response.status}",
        status=response.status,
        type=body.type,
        code=body.code,
        stack=body.stack,
        details=body.details,
        request_id=request_id(response),
        retry_after=parse_retry_after(response.headers.get("Retry-After")),
    )


def request_id(response: HttpResponse) -> str | None:
    """Return the request id of the server, if it sent one."""
    return next((response.headers[name] for name in _REQUEST_IDS if name in response.headers), None)


def parse_error_body(body: Any) -> CatalogError:
    """Return an error body, in any of the forms that servers use, as an error without status."""
    if isinstance(body, str):
        plain = body.strip()
        # HTML pages are not used as a message.
        usable = len(plain) <= _MAX_PLAIN_MESSAGE and "<" not in plain
        return CatalogError(message=plain if usable else "", details=body[:_MAX_DETAILS] or None)
    if not isinstance(body, Mapping):
        return CatalogError(details=body)
    inner = body.get("error")
    source = inner if isinstance(inner, Mapping) else body
    message = next((source[key] for key in _MESSAGE_KEYS if isinstance(source.get(key), str)), "")
    if not message and isinstance(inner, str):
        message = inner
    code, stack = source.get("code"), source.get("stack")
    error_type = source.get("type")
    return CatalogError(
        message=message,
        type=error_type if isinstance(error_type, str) and error_type else None,
        code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        stack=[line for line in stack if isinstance(line, str)] if isinstance(stack, list) else [],
        details=body,
    )


def parse_retry_after(retry_after: str | None) -> float | None:
    """Convert `Retry-After` (RFC 9110 §10.2.3), a number or an HTTP date, to seconds. Returns None if invalid."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) < 12:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _error_class(status: int, error_type: str | None, operation: Operation) -> type[CatalogError]:
    if error_type in _BY_TYPE:
        return _BY_TYPE[error_type]
    if status == 404:
        return operation.not_found
    if status == 409:
        return operation.conflict
    return _BY_STATUS.get(status) or (errors.ServerError if status >= 500 else errors.ResponseError)


def _body(response: HttpResponse) -> Any:
    text = response.content.decode("utf-8-sig", "replace")
    if "json" in response.headers.get("Content-Type", "").lower() or text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
