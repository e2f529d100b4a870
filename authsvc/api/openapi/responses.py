"""Describes the responses and errors of an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from authsvc.api.exception_handler import InternalServerError
from authsvc.api.openapi import descriptions
from authsvc.api.openapi.document import ResponseDoc
from authsvc.api.openapi.operations import Operation
from authsvc.errors import ApiError, MethodNotAllowed, OAuthError, RequestTimedOut, UnexpectedFailure, ValidationFailed

Described = Callable[[Any], dict[str, Any]]
"""Maps a type to its schema."""

ANYWHERE = (ValidationFailed, MethodNotAllowed, UnexpectedFailure, InternalServerError, RequestTimedOut)
"""Errors of every endpoint: unreadable headers, unsupported methods and server failures."""
HEADERS = {
    "Location": "The target of the redirect.",
    "X-Total-Count": "The number of items on all pages; an estimate for large numbers.",
    "Link": "The `next` and the `last` page (RFC 8288).",
    "Retry-After": "Seconds until the same request may succeed.",
    "X-Sb-Error-Code": "The error code, in both formats of the body.",
    "ETag": "Changes with the document.",
}
_TOO_MANY_REQUESTS = 429


def of(operation: Operation, described: Described) -> dict[str, Any]:
    """Status → response, ordered by status, and `default` for the errors of every endpoint."""
    found: dict[str, Any] = {}
    for status, answer in operation.doc.responses.items():
        found[str(status)] = _answer(answer, described)
    choice = operation.doc.choice
    if choice is not None:
        types = tuple(dict.fromkeys(each.response_schema for each in choice.variants().values()))
        found["200"] = _answer(types, described)
    if operation.doc.redirect_errors:
        for redirect in [status for status in found if status.startswith("3")]:
            found[redirect]["x-error-codes"] = _codes(operation.doc.redirect_errors)
    statuses = {error.status for error in operation.documented_errors}
    for status in statuses:
        found[str(status)] = _error_response([error for error in operation.documented_errors if error.status == status])
    return {status: found[status] for status in sorted(found)} | {"default": {"$ref": "#/components/responses/Failure"}}


def failure() -> dict[str, Any]:
    """The default response of every operation."""
    return {
        "description": (
            "Errors of every endpoint: an unreadable header, an unsupported method, a server failure, and messages of"
            " database triggers that the operator adds."
        ),
        "headers": {"X-Sb-Error-Code": {"$ref": "#/components/headers/X-Sb-Error-Code"}},
        "content": {
            "application/json": {
                "schema": _ref("AnyError"),
                "examples": {error.__name__: _example_ref(error) for error in ANYWHERE},
            }
        },
        "x-error-codes": _codes(ANYWHERE),
    }


def example(error: type[ApiError] | type[OAuthError]) -> dict[str, Any]:
    """One error in the initial format; `{name}` stands for a parameter of its text."""
    made = descriptions.specimen(error)
    summary = descriptions.when(error) or str(made)
    if isinstance(made, OAuthError):
        return {"summary": summary, "value": {"error": made.error, "error_description": made.description}}
    body = {"code": made.status, "error_code": made.error_code, "msg": made.message, **made.extra()}
    return {"summary": summary, "value": body}


def _answer(answer: Any, described: Described) -> dict[str, Any]:
    reply = answer if isinstance(answer, ResponseDoc) else ResponseDoc("", answer)
    types = reply.schema if isinstance(reply.schema, tuple) else (reply.schema,)
    text = reply.description or " Or: ".join(
        descriptions.of(each)[0] + "." if isinstance(each, type) else "" for each in types
    )
    found: dict[str, Any] = {"description": text.strip() or "Done."}
    if reply.schema is None and reply.media_type != "application/json":
        found["content"] = {reply.media_type: {"schema": {"type": "string"}}}
    elif reply.schema is not None:
        schemas = [described(each) for each in types]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        found["content"] = {reply.media_type: {"schema": schema}}
    if reply.headers:
        found["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in reply.headers}
    return found


def _error_response(errors: list[type[ApiError] | type[OAuthError]]) -> dict[str, Any]:
    is_oauth = any(issubclass(each, OAuthError) for each in errors)
    codes = _codes(errors)
    headers = ["X-Sb-Error-Code", *(["Retry-After"] if errors[0].status == _TOO_MANY_REQUESTS else [])]
    return {
        "description": ", ".join(f"`{code}`" for code in codes) or "Error.",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {
            "application/json": {
                "schema": {"anyOf": [_ref("AnyError"), _ref("OAuthErrorResponse")]} if is_oauth else _ref("AnyError"),
                "examples": {error.__name__: _example_ref(error) for error in errors},
            }
        },
        "x-error-codes": codes,
    }


def _codes(errors: Iterable[type[ApiError] | type[OAuthError]]) -> list[str]:
    return sorted({error.error_code for error in errors if issubclass(error, ApiError)})


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _example_ref(error: type) -> dict[str, str]:
    return {"$ref": f"#/components/examples/{error.__name__}"}
