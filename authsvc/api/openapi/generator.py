"""Generates the OpenAPI 3.1 document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import orjson

import authsvc
from authsvc.api.captcha import WithCaptcha
from authsvc.api.openapi import descriptions, examples, responses, schemas
from authsvc.api.openapi import operations as routes
from authsvc.api.openapi.document import Parameter, ResponseDoc
from authsvc.api.openapi.operations import Operation
from authsvc.api.parsing import Body
from authsvc.errors import ApiError, OAuthError

_ABOUT = (
    "An authentication and user-management server. Bodies and responses are JSON unless stated otherwise."
    " The `Content-Type` of a request is ignored, and so are unknown members; `null` is the same as absent; a body may"
    " have up to 1 MiB. Every path works with and without a trailing slash. Errors have one of two formats, `Error` and"
    " `VersionedError`; the error reference describes each error and its remedy."
)
# The tag of an operation is the first entry with a prefix of its path.
_TAGS = (
    ("Administration", ("/admin", "/invite"), "For administrators and back-end services."),
    (
        "Identities",
        ("/authorize", "/callback", "/user/identities"),
        "External sign-in, linking and unlinking.",
    ),
    ("Second factors", ("/factors",), "Second factors and recovery codes."),
    ("Passkeys", ("/passkeys",), "Passkeys, and sign-in with a passkey."),
    ("The signed-in user", ("/user", "/reauthenticate"), "Reading and changing the own account."),
    (
        "Sessions and tokens",
        ("/token", "/logout", "/.well-known"),
        "Starting, refreshing and ending sessions, and the keys that verify tokens.",
    ),
    (
        "Accounts",
        ("/signup", "/verify", "/otp", "/magiclink", "/resend", "/recover"),
        "Sign-up, confirmation, passwordless sign-in and password recovery.",
    ),
    ("Service", ("/",), "State and public configuration of the service."),
)
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A user's access token."},
    "admin": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": (
            "A token whose `role` is one of `AUTH_JWT_ADMIN_ROLES`: a service token (`manage.py mint_token`) or the"
            " access token of a user with such a role."
        ),
    },
}
_SHARED_PARAMETERS = {
    "ApiVersion": {
        "name": "X-Supabase-Api-Version",
        "in": "header",
        "description": "`2024-01-01` or later: errors have the format `VersionedError`.",
        "schema": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
    },
    "Audience": {
        "name": "X-JWT-AUD",
        "in": "header",
        "description": "The audience, if it differs from `AUTH_JWT_AUD`.",
        "schema": {"type": "string", "maxLength": 255},
    },
}


def build() -> dict[str, Any]:
    """The document. Raises UndocumentedOperation."""
    operations = routes.operations()
    types = list(dict.fromkeys(schema_type for operation in operations for schema_type in _schema_types(operation)))
    type_schemas, components = schemas.components(types)
    schema_of = dict(zip(types, type_schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        described = _operation(operation, schema_of)
        _add_examples(operation, described, components)
        paths.setdefault(operation.path, _path(operation))[operation.method] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "authsvc",
            "version": authsvc.__version__,
            "description": _ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": ".", "description": "The server of this document."}],
        "tags": [{"name": name, "description": text} for name, _, text in reversed(_TAGS)],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Failure": responses.build_failure()},
            "parameters": _SHARED_PARAMETERS,
            "examples": _examples(operations),
            "headers": {
                name: {"description": text, "schema": {"type": "string"}} for name, text in responses.HEADERS.items()
            },
            "securitySchemes": _SCHEMES,
        },
    }


def dump(document: dict[str, Any]) -> bytes:
    """The bytes that are checked in and served."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _schema_types(operation: Operation) -> Iterable[Any]:
    doc = operation.doc
    alternatives = list(doc.choice.variants().values()) if doc.choice else []
    yield from (alternative.input for alternative in alternatives)
    yield from (alternative.response_schema for alternative in alternatives)
    yield from (schema_type for schema_type in (doc.body, doc.form) if schema_type is not None)
    if operation.reads_captcha:
        yield WithCaptcha
    for response in doc.responses.values():
        schema = response.schema if isinstance(response, ResponseDoc) else response
        yield from schema if isinstance(schema, tuple) else (() if schema is None else (schema,))


def _path(operation: Operation) -> dict[str, Any]:
    variables = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"The id of the {name.removesuffix('_id')}." if name.endswith("_id") else "Its name.",
            "schema": {"type": "string", "format": "uuid"} if name.endswith("_id") else {"type": "string"},
        }
        for name in operation.variables
    ]
    return {"parameters": [*variables, *({"$ref": f"#/components/parameters/{name}"} for name in _SHARED_PARAMETERS)]}


def _operation(operation: Operation, schema_of: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    doc = operation.doc
    summary, text = descriptions.split_docstring(operation.function)
    query = list(doc.query)
    if doc.choice is not None:
        grants = doc.choice.variants()
        query.insert(0, Parameter(doc.choice.parameter, "The grant type.", tuple(grants), required=True))
        variants = "\n".join(
            f"- `{name}`: {descriptions.split_docstring(type(grant))[0]}." for name, grant in grants.items()
        )
        text = f"{text}\n\n{variants}".strip()
    described: dict[str, Any] = {
        "tags": [next(name for name, starts, _ in _TAGS if operation.path.startswith(starts))],
        "summary": summary,
        "operationId": "_".join([operation.method, *re.findall(r"[a-z0-9]+", operation.path)]),
    }
    if text:
        described["description"] = text
    if query:
        described["parameters"] = [_parameter(parameter) for parameter in query]
    body = _body(operation, schema_of)
    if body is not None:
        described["requestBody"] = body
    described["responses"] = responses.build_responses(operation, schema_of.__getitem__)
    described["security"] = [{operation.scheme: []}] if operation.scheme else []
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if parameter.values:
        schema["enum"] = list(parameter.values)
    if parameter.minimum is not None:
        schema = {"type": "integer", "minimum": parameter.minimum}
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "required": parameter.required,
        "schema": schema,
    }


def _body(operation: Operation, schema_of: dict[Any, dict[str, Any]]) -> dict[str, Any] | None:
    doc = operation.doc
    if doc.form is not None and operation.method == "post":
        return {"content": {"application/x-www-form-urlencoded": {"schema": schema_of[doc.form]}}}
    body_types: list[type[Body]] = [doc.body] if doc.body is not None else []
    if doc.choice is not None:
        body_types = [alternative.input for alternative in doc.choice.variants().values()]
    alternatives = [schema_of[body_type] for body_type in body_types]
    schema = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives} if alternatives else None
    if operation.reads_captcha:
        schema = schema_of[WithCaptcha] if schema is None else {"allOf": [schema, schema_of[WithCaptcha]]}
    if schema is None:
        return None
    return {"required": not doc.body_optional, "content": {"application/json": {"schema": schema}}}


def _add_examples(operation: Operation, described: dict[str, Any], components: dict[str, Any]) -> None:
    """Add an example to the body and to each response of a successful request; to `/token` one for each grant."""
    doc = operation.doc
    body = doc.form if operation.method == "post" and doc.form is not None else doc.body
    for media in described.get("requestBody", {}).get("content", {}).values():
        if doc.choice is not None:
            media["examples"] = {
                name: {"value": examples.request_example(variant.input, components)}
                for name, variant in doc.choice.variants().items()
            }
        else:
            media["example"] = examples.request_example(body or WithCaptcha, components)
    for status, response in described["responses"].items():
        media = response.get("content", {}).get("application/json")
        if media is not None and "examples" not in media and status.startswith("2"):
            media["example"] = examples.response_example(media["schema"], components)


def _examples(operations: list[Operation]) -> dict[str, Any]:
    errors: dict[str, type[ApiError] | type[OAuthError]] = {}
    for error in (*responses.ANYWHERE, *(error for operation in operations for error in operation.documented_errors)):
        if errors.setdefault(error.__name__, error) is not error:
            raise ValueError(f"two errors have one name: {error.__name__}")
    return {name: responses.build_example(error) for name, error in sorted(errors.items())}
