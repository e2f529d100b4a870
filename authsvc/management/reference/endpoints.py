"""Writes the endpoint reference: authentication, purpose, body and responses of every endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from authsvc.api.openapi import generator

_METHODS = ("get", "post", "put", "patch", "delete")
_INTRODUCTION = """# Endpoints

<!-- Written by `manage.py write_reference`. -->

A summary of every endpoint; [openapi.json](openapi.json) is the complete description for programs. A running service
serves that document at `/openapi.json`, and an HTML page of it at `/docs` if `AUTH_API_DOCS_ENABLED` or the development
inbox is enabled. See also [HTTP API](api.md) and [Errors](errors.md).

*bearer*: header `Authorization: Bearer` with the access token of a user. *admin*: the same with an administrator token.
"""


def page() -> str:
    """The reference as Markdown."""
    document = generator.build()
    parts = [_INTRODUCTION]
    for tag in document["tags"]:
        parts.append(f"## {tag['name']}\n\n{tag['description']}\n")
        parts.append("| Endpoint | Authentication | Purpose | Body | Responses |\n|---|---|---|---|---|")
        parts += _rows(document, tag["name"])
        parts.append("")
    parts.append("## Schemas of bodies and responses\n\nMembers in bold are required.\n")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f"### {name}\n")
        if "description" in schema:
            parts.append(f"{schema['description']}\n")
        parts += _members(schema)
        parts.append("")
    return "\n".join(parts)


def _rows(document: Mapping[str, Any], tag: str) -> Iterator[str]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            operation = item.get(method)
            if operation is None or tag not in operation["tags"]:
                continue
            scheme = next((name for requirement in operation["security"] for name in requirement), "")
            body = next(
                (media["schema"] for media in operation.get("requestBody", {}).get("content", {}).values()), None
            )
            responses = [
                f"{status} {_describe_content(response)}".strip()
                for status, response in operation["responses"].items()
                if status < "4"
            ]
            cells = (
                f"`{method.upper()} {path}`",
                scheme,
                operation["summary"],
                _describe_type(body),
                ", ".join(responses),
            )
            yield f"| {' | '.join(cells)} |"


def _describe_content(response: Mapping[str, Any]) -> str:
    for media_type, media in response.get("content", {}).items():
        return _describe_type(media["schema"]) if media_type == "application/json" else f"`{media_type}`"
    return ""


def _members(schema: Mapping[str, Any]) -> Iterator[str]:
    if "anyOf" in schema:
        yield f"{_describe_type(schema)}."
    if schema.get("properties"):
        yield "| Member | Type | Description |\n|---|---|---|"
    for name, member in schema.get("properties", {}).items():
        member_name = f"**`{name}`**" if name in schema.get("required", ()) else f"`{name}`"
        yield f"| {member_name} | {_describe_type(member)} | {member.get('description', '')} |"


def _describe_type(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return ""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for key, separator in (("anyOf", " or "), ("allOf", ", ")):
        if key in schema:
            return separator.join(_describe_type(part) for part in schema[key])
    types = schema.get("type", "anything")
    if types == "array":
        return f"array of {_describe_type(schema['items'])}"
    text = " or ".join(types) if isinstance(types, list) else str(types)
    return f"{text} ({schema['format']})" if "format" in schema else text
