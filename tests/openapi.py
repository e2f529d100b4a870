"""Checks responses against the OpenAPI document: status, body, headers and error code must be declared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import orjson
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]  # it ships no types
from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]  # the same

from authsvc.api.openapi import views

METHODS = ("get", "post", "put", "patch", "delete")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")
_MAX_MESSAGE_LENGTH = 150
# Pages, and the routes of disabled features, which the document leaves out.
_OUTSIDE_THE_API = re.compile(r"/(inbox|operator|sso)(/|$)")

_formats = FormatChecker(formats=())
_formats.checks("uuid", raises=ValueError)(lambda text: not isinstance(text, str) or str(UUID(text)) == text)
_formats.checks("date-time")(lambda text: not isinstance(text, str) or _TIMESTAMP.fullmatch(text) is not None)


@cache
def document() -> dict[str, Any]:
    """The committed document, with undeclared members forbidden in objects."""
    content: dict[str, Any] = orjson.loads(views.FILE.read_bytes())
    for schema in content["components"]["schemas"].values():
        if schema.get("properties"):
            schema["additionalProperties"] = False
    return content


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    """Path patterns with their templates, those with fewer variables first."""
    paths = sorted(document()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)) + "/?"), path) for path in paths]


@cache
def find(path: str) -> str | None:
    """The template in the document that matches a request path, or None."""
    return next((template for pattern, template in _paths() if pattern.fullmatch(path)), None)


@cache
def validator(path: str, method: str, status: str, *, checks_formats: bool = True) -> Draft202012Validator | None:
    """The validator of a response body; None if the response has no JSON body."""
    responses = document()["paths"][path][method]["responses"]
    response = responses.get(status, document()["components"]["responses"]["Failure"])
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return None
    return Draft202012Validator(
        {**schema, "components": document()["components"]}, format_checker=_formats if checks_formats else None
    )


def find_problems(
    method: str, url: str, status: int, *, headers: Mapping[str, str], content: bytes, checks_formats: bool = True
) -> list[str]:
    """Deviations of a response from the document; empty for paths outside the API."""
    path = urlsplit(url).path
    if _OUTSIDE_THE_API.match(path):
        return []
    template, method = find(path), method.lower()
    if template is None:
        return [] if status == 404 else [f"{path} is not in the document and answered {status}"]
    operation = document()["paths"][template].get(method)
    if operation is None:
        return [] if status == 405 else [f"{method} {template} is not in the document and answered {status}"]
    prefix = f"{method} {template} answered {status}"
    response = operation["responses"].get(str(status))
    problems = [f"{prefix}: {problem}" for problem in _undeclared(response, headers, content, status=status)]
    checks = validator(template, method, str(status), checks_formats=checks_formats)
    if checks is None:
        kind = next(iter(response.get("content", {})), "") if response else ""
        if content and not kind:
            problems.append(f"{prefix} with a body")
        return problems
    if headers.get("Content-Type", "") != "application/json":
        return [*problems, f"{prefix} as {headers.get('Content-Type')}"]
    return problems + [
        f"{prefix}: {message}" for error in checks.iter_errors(orjson.loads(content)) for message in _messages(error)
    ]


def _messages(error: ValidationError) -> list[str]:
    """The failing location and message of each alternative; omits the value, which can hold secrets."""
    if error.context:
        return [message for inner in error.context for message in _messages(inner)]
    return [f"{error.json_path}: {error.message[-_MAX_MESSAGE_LENGTH:]}"]


def _undeclared(
    response: Mapping[str, Any] | None, headers: Mapping[str, str], content: bytes, *, status: int
) -> list[str]:
    anywhere = document()["components"]["responses"]["Failure"]["x-error-codes"]
    declared = (response or {}).get("x-error-codes", [])
    if 300 <= status < 400:
        if response is None:
            return ["undeclared"]
        if status == 304:
            return []
        target = urlsplit(headers.get("Location", ""))
        parameters = dict(parse_qsl(target.query)) | dict(parse_qsl(target.fragment))
        code = parameters.get("error_code", "")
        problems = [] if "Location" in headers else ["without Location"]
        return problems if not code or code in declared or code in anywhere else [*problems, f"with {code}"]
    if status < 400:
        return ["undeclared"] if response is None else []
    code = headers.get("X-Sb-Error-Code", "")
    if not code:
        # From RFC 6749, or from a database trigger created by a test.
        return []
    return [] if code in declared or code in anywhere else [f"with {code}"]
