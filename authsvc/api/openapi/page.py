"""Converts the OpenAPI document into the context of the HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

_CODE = re.compile(r"`([^`]+)`")
_METHODS = ("get", "post", "put", "patch", "delete")
_SAMPLES = {"email": "ada@example.com", "password": "correct horse 1", "phone": "15551234567", "type": "signup"}
_FEW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A parameter, or a member of an object."""

    name: str
    kind: SafeString
    text: SafeString
    place: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: str
    text: SafeString
    kind: SafeString
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    id: str
    method: str
    path: str
    summary: SafeString
    paragraphs: tuple[SafeString, ...]
    scheme: str
    parameters: tuple[Row, ...]
    body: SafeString
    responses: tuple[Response, ...]
    curl: str


def context(document: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `openapi/page.html`."""
    operations = list(_operations(document))
    return {
        "info": document["info"],
        "about": words(document["info"]["description"]),
        "groups": [
            {"tag": tag, "operations": [each for name, each in operations if name == tag["name"]]}
            for tag in document["tags"]
        ],
        "shared": [_parameter(each) for each in document["components"]["parameters"].values()],
        "schemas": [
            {
                "name": name,
                "text": words(schema.get("description", "")),
                "kind": kind_of(schema) if "anyOf" in schema else "",
                "rows": list(_members(schema)),
            }
            for name, schema in document["components"]["schemas"].items()
        ],
        "schemes": {
            name: words(each["description"]) for name, each in document["components"]["securitySchemes"].items()
        },
    }


def words(text: str) -> SafeString:
    """The text as HTML, with parts in backticks as `<code>`."""
    return mark_safe(_CODE.sub(r"<code>\1</code>", conditional_escape(text)))  # noqa: S308  (escaped right here)


def kind_of(schema: Mapping[str, Any]) -> SafeString:
    """A schema in words, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return format_html('<a href="#schema-{}">{}</a>', name, name)
    if "enum" in schema:
        return format_html_join(" | ", "<code>{}</code>", ((value,) for value in schema["enum"]))
    for key, between in (("anyOf", " or "), ("allOf", " and ")):
        if key in schema:
            return format_html_join(between, "{}", ((kind_of(each),) for each in schema[key]))
    kinds = schema.get("type", "any value")
    if kinds == "array":
        return format_html("array of {}", kind_of(schema["items"]))
    shown = " or ".join(kinds) if isinstance(kinds, list) else kinds
    return format_html("{} ({})", shown, schema["format"]) if "format" in schema else format_html("{}", shown)


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Operation]]:
    for path, item in document["paths"].items():
        own = [each for each in item["parameters"] if "$ref" not in each]
        for method in _METHODS:
            if method in item:
                yield item[method]["tags"][0], _operation(document, path, method, item[method], own)


def _operation(
    document: Mapping[str, Any], path: str, method: str, described: Mapping[str, Any], own: list[Any]
) -> Operation:
    content = described.get("requestBody", {}).get("content", {})
    schema = next((each["schema"] for each in content.values()), None)
    return Operation(
        id=described["operationId"],
        method=method.upper(),
        path=path,
        summary=words(described["summary"]),
        paragraphs=tuple(words(part) for part in re.split(r"\n+", described.get("description", "")) if part),
        scheme=next((name for each in described["security"] for name in each), ""),
        parameters=tuple(_parameter(each) for each in [*own, *described.get("parameters", ())]),
        body=kind_of(schema) if schema else SafeString(),
        responses=tuple(
            _response(status, each) for status, each in described["responses"].items() if "description" in each
        ),
        curl=_curl(document, path, method, described, schema),
    )


def _parameter(given: Mapping[str, Any]) -> Row:
    return Row(
        name=given["name"],
        kind=kind_of(given["schema"]),
        text=words(given["description"]),
        place=given["in"],
        required=given.get("required", False),
    )


def _response(status: str, given: Mapping[str, Any]) -> Response:
    schema = next((each["schema"] for each in given.get("content", {}).values()), None)
    codes = tuple(given.get("x-error-codes", ()))
    is_error = status[0] in "45"
    return Response(
        status=status,
        text=SafeString() if is_error else words(given["description"]),
        kind=kind_of(schema) if schema and not is_error else SafeString(),
        codes=codes,
    )


def _members(schema: Mapping[str, Any]) -> Iterator[Row]:
    for name, member in schema.get("properties", {}).items():
        yield Row(
            name=name,
            kind=kind_of(member),
            text=words(member.get("description", "")),
            required=name in schema.get("required", ()),
        )


def _curl(
    document: Mapping[str, Any], path: str, method: str, described: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> str:
    """A curl command for the operation; `$URL` is the address of the service."""
    needed = [each for each in described.get("parameters", ()) if each["required"]]
    query = "&".join(f"{each['name']}={each['schema'].get('enum', ['…'])[0]}" for each in needed)
    parts = [f"curl -X {method.upper()}" if method != "get" else "curl", f'"$URL{path}{"?" + query if query else ""}"']
    if described["security"]:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if schema is not None:
        is_form = "application/x-www-form-urlencoded" in described["requestBody"]["content"]
        sample = _sample(document, schema)
        parts += (
            [f"-d '{name}={value}'" for name, value in sample.items()]
            if is_form
            else [f"-d '{orjson.dumps(sample).decode()}'"]
        )
    return " ".join(parts)


def _sample(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, str]:
    """Sample values of the required members, else of the sign-in credentials, else of the first members."""
    while "properties" not in schema:
        inner = schema.get("allOf") or schema.get("anyOf")
        if inner:
            schema = inner[0]
        elif "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        else:
            return {}
    names = list(schema.get("required", ()))
    if not names or names == ["password"]:
        names = [name for name in ("email", "password") if name in schema["properties"]]
    names = names or list(schema["properties"])[:_FEW]
    return {name: _SAMPLES.get(name, "…") for name in names if name in schema["properties"]}
