"""Answers and refusals of an operation as OpenAPI responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from authsvc.api.exception_handler import InternalServerError
from authsvc.api.openapi import descriptions
from authsvc.api.openapi.document import ResponseDoc
from authsvc.api.openapi.operations import Operation
from authsvc.errors import ApiError, MethodNotAllowed, OAuthError, RequestTimedOut, UnexpectedFailure, ValidationFailed

Described = Callable[[Any], dict[str, Any]]
"""The schema of a shape."""

ANYWHERE = (ValidationFailed, MethodNotAllowed, UnexpectedFailure, InternalServerError, RequestTimedOut)
"""What any endpoint may answer: for headers that cannot be read, wrong methods, and failures on our side."""
HEADERS = {
    "Location": "Where the browser goes.",
    "X-Total-Count": "How many there are on all pages; an estimate where there are very many.",
    "Link": "The `next` and the `last` page (RFC 8288).",
    "Retry-After": "Seconds until the same request may succeed.",
    "X-Sb-Error-Code": "The stable name of what is wrong, in both forms of the body.",
    "ETag": "Changes with the document.",
}
_TOO_MANY_REQUESTS = 429


def of(operation: Operation, described: Described) -> dict[str, Any]:
    """Status → response, in the order of the statuses, and what else may be answered as `default`."""
    found: dict[str, Any] = {}
    for status, answer in operation.doc.responses.items():
        found[str(status)] = _answer(answer, described)
    choice = operation.doc.choice
    if choice is not None:
        shapes = tuple(dict.fromkeys(each.response_schema for each in choice.variants().values()))
        found["200"] = _answer(shapes, described)
    if operation.doc.redirect_errors:
        for redirect in [status for status in found if status.startswith("3")]:
            found[redirect]["x-error-codes"] = _codes(operation.doc.redirect_errors)
    statuses = {error.status for error in operation.documented_errors}
    for status in statuses:
        found[str(status)] = _refusal([error for error in operation.documented_errors if error.status == status])
    return {status: found[status] for status in sorted(found)} | {"default": {"$ref": "#/components/responses/Failure"}}


def failure() -> dict[str, Any]:
    """The response that every operation has as its default."""
    return {
        "description": (
            "What any endpoint may answer: a header that cannot be read, a method that it does not have, a failure on"
            " our side, and what a trigger in the database says that the operator has put there."
        ),
        "headers": {"X-Sb-Error-Code": {"$ref": "#/components/headers/X-Sb-Error-Code"}},
        "content": {
            "application/json": {
                "schema": _ref("Refusal"),
                "examples": {error.__name__: _example_ref(error) for error in ANYWHERE},
            }
        },
        "x-error-codes": _codes(ANYWHERE),
    }


def example(error: type[ApiError] | type[OAuthError]) -> dict[str, Any]:
    """One error in the initial form; `{name}` stands for what its text is made from."""
    made = descriptions.specimen(error)
    summary = descriptions.when(error) or str(made)
    if isinstance(made, OAuthError):
        return {"summary": summary, "value": {"error": made.error, "error_description": made.description}}
    body = {"code": made.status, "error_code": made.error_code, "msg": made.message, **made.extra()}
    return {"summary": summary, "value": body}


def _answer(answer: Any, described: Described) -> dict[str, Any]:
    reply = answer if isinstance(answer, ResponseDoc) else ResponseDoc("", answer)
    shapes = reply.schema if isinstance(reply.schema, tuple) else (reply.schema,)
    text = reply.description or " Or: ".join(
        descriptions.of(shape)[0] + "." if isinstance(shape, type) else "" for shape in shapes
    )
    found: dict[str, Any] = {"description": text.strip() or "Done."}
    if reply.schema is None and reply.media_type != "application/json":
        found["content"] = {reply.media_type: {"schema": {"type": "string"}}}
    elif reply.schema is not None:
        schemas = [described(shape) for shape in shapes]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        found["content"] = {reply.media_type: {"schema": schema}}
    if reply.headers:
        found["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in reply.headers}
    return found


def _refusal(errors: list[type[ApiError] | type[OAuthError]]) -> dict[str, Any]:
    is_oauth = any(issubclass(each, OAuthError) for each in errors)
    codes = _codes(errors)
    headers = ["X-Sb-Error-Code", *(["Retry-After"] if errors[0].status == _TOO_MANY_REQUESTS else [])]
    return {
        "description": ", ".join(f"`{code}`" for code in codes) or "Refused.",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {
            "application/json": {
                "schema": {"anyOf": [_ref("Refusal"), _ref("OAuthRefusal")]} if is_oauth else _ref("Refusal"),
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
