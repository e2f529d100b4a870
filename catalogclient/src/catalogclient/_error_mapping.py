"""Answers of status 400 and above read as errors (OpenAPI, `IcebergErrorResponse`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from catalogclient import errors
from catalogclient._endpoints import Operation
from catalogclient._messages import Reply
from catalogclient.errors import CatalogError

_MOST_TEXT = 2_000
_MOST_PLAIN_MESSAGE = 200
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the body of a refusal says, as far as it can be understood."""

    message: str = ""
    type: str | None = None
    code: int | None = None
    stack: list[str] = field(default_factory=list)
    details: Any = None


def refusal(reply: Reply, operation: Operation) -> CatalogError:
    """The error that an answer of status 400 or above means."""
    said = told(_body(reply))
    return _kind(reply.status, said.type, operation)(
        said.message or f"Request failed with status {reply.status}",
        status=reply.status,
        type=said.type,
        code=said.code,
        stack=said.stack,
        details=said.details,
        request_id=request_id(reply),
        retry_after=seconds(reply.headers.get("Retry-After")),
    )


def request_id(reply: Reply) -> str | None:
    """The server's name for the request, which its operators can look for."""
    return next((reply.headers[name] for name in _REQUEST_IDS if name in reply.headers), None)


def told(body: Any) -> Told:
    """The parts of an error in any of the forms that servers use."""
    if isinstance(body, str):
        plain = body.strip()
        # A page of HTML is no message.
        usable = len(plain) <= _MOST_PLAIN_MESSAGE and "<" not in plain
        return Told(message=plain if usable else "", details=body[:_MOST_TEXT] or None)
    if not isinstance(body, Mapping):
        return Told(details=body)
    inner = body.get("error")
    source = inner if isinstance(inner, Mapping) else body
    message = next((source[key] for key in _MESSAGES if isinstance(source.get(key), str)), "")
    if not message and isinstance(inner, str):
        message = inner
    code, stack = source.get("code"), source.get("stack")
    kind = source.get("type")
    return Told(
        message=message,
        type=kind if isinstance(kind, str) and kind else None,
        code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        stack=[line for line in stack if isinstance(line, str)] if isinstance(stack, list) else [],
        details=body,
    )


_MESSAGES = ("message", "Message", "detail", "error_description")


def seconds(retry_after: str | None) -> float | None:
    """How long `Retry-After` (RFC 9110 §10.2.3) wants to be waited: a number of seconds, or until a date."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) < 12:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _kind(status: int, said: str | None, operation: Operation) -> type[CatalogError]:
    if said in _BY_TYPE:
        return _BY_TYPE[said]
    if status == 404:
        return operation.not_found
    if status == 409:
        return operation.conflict
    return _BY_STATUS.get(status) or (errors.ServerError if status >= 500 else errors.ResponseError)


def _body(reply: Reply) -> Any:
    text = reply.content.decode("utf-8-sig", "replace")
    if "json" in reply.headers.get("Content-Type", "").lower() or text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
