"""Holds answers against the OpenAPI document: status, body, headers, error code; nothing may be in them undeclared."""

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
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")
_LONGEST = 150
_NOT_OF_THE_API = re.compile(r"/(inbox|operator)(/|$)")

_formats = FormatChecker(formats=())
_formats.checks("uuid", raises=ValueError)(lambda text: not isinstance(text, str) or str(UUID(text)) == text)
_formats.checks("date-time")(lambda text: not isinstance(text, str) or _MOMENT.fullmatch(text) is not None)


@cache
def document() -> dict[str, Any]:
    """The document as it is checked in, but that objects have no members which it does not name."""
    found: dict[str, Any] = orjson.loads(views.FILE.read_bytes())
    for schema in found["components"]["schemas"].values():
        if schema.get("properties"):
            schema["additionalProperties"] = False
    return found


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    """Those with fewer variables first."""
    paths = sorted(document()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)) + "/?"), path) for path in paths]


@cache
def find(path: str) -> str | None:
    """The path of the document that a request is for."""
    return next((template for pattern, template in _paths() if pattern.fullmatch(path)), None)


@cache
def validator(path: str, method: str, status: str, *, checks_formats: bool = True) -> Draft202012Validator | None:
    """Of the body of an answer; None where there must be none, or none that is JSON."""
    responses = document()["paths"][path][method]["responses"]
    response = responses.get(status, document()["components"]["responses"]["Failure"])
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return None
    return Draft202012Validator(
        {**schema, "components": document()["components"]}, format_checker=_formats if checks_formats else None
    )


def problems(
    method: str, url: str, status: int, *, headers: Mapping[str, str], content: bytes, checks_formats: bool = True
) -> list[str]:
    """What an answer has that the document does not let it have, or lacks; nothing for what is not of the API."""
    path = urlsplit(url).path
    if _NOT_OF_THE_API.match(path):
        return []
    template, method = find(path), method.lower()
    if template is None:
        return [] if status == 404 else [f"{path} is not in the document and answered {status}"]
    operation = document()["paths"][template].get(method)
    if operation is None:
        return [] if status == 405 else [f"{method} {template} is not in the document and answered {status}"]
    asked = f"{method} {template} answered {status}"
    response = operation["responses"].get(str(status))
    found = [f"{asked}: {what}" for what in _undeclared(response, headers, content, status=status)]
    checks = validator(template, method, str(status), checks_formats=checks_formats)
    if checks is None:
        kind = next(iter(response.get("content", {})), "") if response else ""
        if content and not kind:
            found.append(f"{asked} with a body")
        return found
    if headers.get("Content-Type", "") != "application/json":
        return [*found, f"{asked} as {headers.get('Content-Type')}"]
    return found + [f"{asked}: {what}" for error in checks.iter_errors(orjson.loads(content)) for what in _told(error)]


def _told(error: ValidationError) -> list[str]:
    """Where it is wrong, for each form that it could have; the value itself may hold secrets."""
    if error.context:
        return [what for inner in error.context for what in _told(inner)]
    return [f"{error.json_path}: {error.message[-_LONGEST:]}"]


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
        told = dict(parse_qsl(target.query)) | dict(parse_qsl(target.fragment))
        code = told.get("error_code", "")
        found = [] if "Location" in headers else ["without Location"]
        return found if not code or code in declared or code in anywhere else [*found, f"with {code}"]
    if status < 400:
        return ["undeclared"] if response is None else []
    code = headers.get("X-Sb-Error-Code", "")
    if not code:
        # Of RFC 6749, or of a trigger that a test has put into the database.
        return []
    return [] if code in declared or code in anywhere else [f"with {code}"]
