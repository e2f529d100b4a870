"""Describes the responses and errors of an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from authsvc.api.exception_handler import InternalServerError
from authsvc.api.openapi import descriptions
from authsvc.api.openapi.document import ResponseDoc
from authsvc.api.openapi.operations import Operation
from authsvc.errors import (
    ApiError,
    DatabaseUnavailable,
    MethodNotAllowed,
    OAuthError,
    RequestTimedOut,
    ServiceBusy,
    UnexpectedFailure,
    ValidationFailed,
)

SchemaOf = Callable[[Any], dict[str, Any]]
"""Maps a type to its schema."""

ANYWHERE: list[type[ApiError]] = [
    ValidationFailed, MethodNotAllowed, UnexpectedFailure, InternalServerError, ServiceBusy, RequestTimedOut,
    DatabaseUnavailable,
]  # fmt: skip
"""Errors of every endpoint: unreadable headers, unsupported methods, server failures. The app `hooks` adds its own."""
HEADERS = {
    "Location": "The target of the redirect.",
    "X-Total-Count": "The number of items on all pages; an estimate for large numbers.",
    "Link": "The `next` and the `last` page (RFC 8288).",
    "Retry-After": "Seconds until the same request may succeed.",
    "X-Sb-Error-Code": "The error code, in both formats of the body.",
    "ETag": "Changes with the document.",
}
_TOO_MANY_REQUESTS = 429


def build_responses(operation: Operation, schema_of: SchemaOf) -> dict[str, Any]:
    """Status → response, ordered by status, and `default` for the errors of every endpoint."""
    responses: dict[str, Any] = {}
    for status, response in operation.doc.responses.items():
        responses[str(status)] = _build_response(response, schema_of)
    choice = operation.doc.choice
    if choice is not None:
        types = tuple(dict.fromkeys(alternative.response_schema for alternative in choice.variants().values()))
        responses["200"] = _build_response(types, schema_of)
    if operation.doc.redirect_errors:
        for redirect in [status for status in responses if status.startswith("3")]:
            responses[redirect]["x-error-codes"] = _codes(operation.doc.redirect_errors)
    statuses = {error.status for error in operation.documented_errors}
    for status in statuses:
        responses[str(status)] = _build_error_response(
            [error for error in operation.documented_errors if error.status == status]
        )
    return {status: responses[status] for status in sorted(responses)} | {
        "default": {"$ref": "#/components/responses/Failure"}
    }


def build_failure() -> dict[str, Any]:
    """The default response of every operation."""
    return {
        "description": (
            "Errors of every endpoint: an unreadable header, an unsupported method, a server failure, messages of"
            " database triggers that the operator adds, and errors of hooks. A hook that refuses chooses the status."
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


def build_example(error: type[ApiError] | type[OAuthError]) -> dict[str, Any]:
    """One error in the initial format; `{name}` stands for a parameter of its text."""
    instance = descriptions.instantiate(error)
    summary = descriptions.describe_condition(error) or str(instance)
    if isinstance(instance, OAuthError):
        return {"summary": summary, "value": {"error": instance.error, "error_description": instance.description}}
    body = {"code": instance.status, "error_code": instance.error_code, "msg": instance.message, **instance.extra()}
    if instance.hint:
        body["hint"] = instance.hint
    return {"summary": summary, "value": body}


def _build_response(declared: Any, schema_of: SchemaOf) -> dict[str, Any]:
    doc = declared if isinstance(declared, ResponseDoc) else ResponseDoc("", declared)
    types = doc.schema if isinstance(doc.schema, tuple) else (doc.schema,)
    description = doc.description or " Or: ".join(
        descriptions.split_docstring(type_)[0] + "." if isinstance(type_, type) else "" for type_ in types
    )
    response: dict[str, Any] = {"description": description.strip() or "Done."}
    if doc.schema is None and doc.media_type != "application/json":
        response["content"] = {doc.media_type: {"schema": {"type": "string"}}}
    elif doc.schema is not None:
        schemas = [schema_of(type_) for type_ in types]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        response["content"] = {doc.media_type: {"schema": schema}}
    if doc.headers:
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in doc.headers}
    return response


def _build_error_response(errors: list[type[ApiError] | type[OAuthError]]) -> dict[str, Any]:
    is_oauth = any(issubclass(error, OAuthError) for error in errors)
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
