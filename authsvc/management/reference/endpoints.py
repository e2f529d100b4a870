"""The list of endpoints: what each does, who may ask for it, and what it takes and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from authsvc.api.openapi import generator

_METHODS = ("get", "post", "put", "patch", "delete")
_HEAD = """# Endpoints

<!-- Written by `manage.py write_reference`. -->

Every endpoint, in short; [openapi.json](openapi.json) has all of it, for programs. A running service serves that
document at `/openapi.json`, and shows it as a page at `/docs` where `AUTH_API_DOCS_ENABLED` or the development inbox is
on.
What stands between the lines: [HTTP API](api.md). What the errors mean: [Errors](errors.md).

*bearer*: header `Authorization: Bearer` with a user's access token. *admin*: the same with an administrator's.
"""


def page() -> str:
    """The list as Markdown."""
    described = generator.build()
    parts = [_HEAD]
    for tag in described["tags"]:
        parts.append(f"## {tag['name']}\n\n{tag['description']}\n")
        parts.append("| Endpoint | Asks for | Does | Body | Answers |\n|---|---|---|---|---|")
        parts += _rows(described, tag["name"])
        parts.append("")
    parts.append("## Forms of bodies and answers\n\nMembers in bold are always there, or needed.\n")
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
        yield "| Member | Type | Means |\n|---|---|---|"
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
