"""Writes the endpoint reference: authentication, purpose, body and responses of every endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from authsvc.api.openapi import generator

_METHODS = ("get", "post", "put", "patch", "delete")
_HEAD = """# Endpoints

<!-- Written by `manage.py write_reference`. -->

A summary of every endpoint; [openapi.json](openapi.json) is the complete description for programs. A running service
serves that document at `/openapi.json`, and an HTML page of it at `/docs` if `AUTH_API_DOCS_ENABLED` or the development
inbox is enabled. See also [HTTP API](api.md) and [Errors](errors.md).

*bearer*: header `Authorization: Bearer` with the access token of a user. *admin*: the same with an administrator token.
"""


def page() -> str:
    """The reference as Markdown."""
    described = generator.build()
    parts = [_HEAD]
    for tag in described["tags"]:
        parts.append(f"## {tag['name']}\n\n{tag['description']}\n")
        parts.append("| Endpoint | Authentication | Purpose | Body | Responses |\n|---|---|---|---|---|")
        parts += _rows(described, tag["name"])
        parts.append("")
    parts.append("## Schemas of bodies and responses\n\nMembers in bold are required.\n")
    for name, schema in described["components"]["schemas"].items():
        parts.append(f"### {name}\n")
        if "description" in schema:
            parts.append(f"{schema['description']}\n")
        parts += _members(schema)
        parts.append("")
    return "\n".join(parts)


def _rows(described: Mapping[str, Any], tag: str) -> Iterator[str]:
    for path, item in described["paths"].items():
        for method in _METHODS:
            operation = item.get(method)
            if operation is None or tag not in operation["tags"]:
                continue
            scheme = next((name for each in operation["security"] for name in each), "")
            body = next((each["schema"] for each in operation.get("requestBody", {}).get("content", {}).values()), None)
            answers = [
                f"{status} {_content(each)}".strip() for status, each in operation["responses"].items() if status < "4"
            ]
            cells = (f"`{method.upper()} {path}`", scheme, operation["summary"], _kind(body), ", ".join(answers))
            yield f"| {' | '.join(cells)} |"


def _content(answer: Mapping[str, Any]) -> str:
    for media_type, each in answer.get("content", {}).items():
        return _kind(each["schema"]) if media_type == "application/json" else f"`{media_type}`"
    return ""


def _members(schema: Mapping[str, Any]) -> Iterator[str]:
    if "anyOf" in schema:
        yield f"{_kind(schema)}."
    if schema.get("properties"):
        yield "| Member | Type | Description |\n|---|---|---|"
    for name, member in schema.get("properties", {}).items():
        shown = f"**`{name}`**" if name in schema.get("required", ()) else f"`{name}`"
        yield f"| {shown} | {_kind(member)} | {member.get('description', '')} |"


def _kind(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return ""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for key, between in (("anyOf", " or "), ("allOf", ", ")):
        if key in schema:
            return between.join(_kind(each) for each in schema[key])
    kinds = schema.get("type", "anything")
    if kinds == "array":
        return f"array of {_kind(schema['items'])}"
    shown = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    return f"{shown} ({schema['format']})" if "format" in schema else shown
