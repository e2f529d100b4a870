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
        "about": to_html(document["info"]["description"]),
        "groups": [
            {"tag": tag, "operations": [operation for name, operation in operations if name == tag["name"]]}
            for tag in document["tags"]
        ],
        "shared": [_parameter(parameter) for parameter in document["components"]["parameters"].values()],
        "schemas": [
            {
                "name": name,
                "text": to_html(schema.get("description", "")),
                "kind": describe_type(schema) if "anyOf" in schema else "",
                "rows": list(_members(schema)),
            }
            for name, schema in document["components"]["schemas"].items()
        ],
        "schemes": {
            name: to_html(scheme["description"]) for name, scheme in document["components"]["securitySchemes"].items()
        },
    }


def to_html(text: str) -> SafeString:
    """The text as HTML, with parts in backticks as `<code>`."""
    return mark_safe(_CODE.sub(r"<code>\1</code>", conditional_escape(text)))  # noqa: S308  (escaped right here)


def describe_type(schema: Mapping[str, Any]) -> SafeString:
    """A schema in words, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return format_html('<a href="#schema-{}">{}</a>', name, name)
    if "enum" in schema:
        return format_html_join(" | ", "<code>{}</code>", ((value,) for value in schema["enum"]))
    for key, separator in (("anyOf", " or "), ("allOf", " and ")):
        if key in schema:
            return format_html_join(separator, "{}", ((describe_type(part),) for part in schema[key]))
    types = schema.get("type", "any value")
    if types == "array":
        return format_html("array of {}", describe_type(schema["items"]))
    text = " or ".join(types) if isinstance(types, list) else types
    return format_html("{} ({})", text, schema["format"]) if "format" in schema else format_html("{}", text)


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Operation]]:
    for path, item in document["paths"].items():
        path_parameters = [parameter for parameter in item["parameters"] if "$ref" not in parameter]
        for method in _METHODS:
            if method in item:
                yield item[method]["tags"][0], _operation(path, method, item[method], path_parameters)


def _operation(path: str, method: str, operation: Mapping[str, Any], path_parameters: list[Any]) -> Operation:
    content = operation.get("requestBody", {}).get("content", {})
    schema = next((media["schema"] for media in content.values()), None)
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=to_html(operation["summary"]),
        paragraphs=tuple(to_html(part) for part in re.split(r"\n+", operation.get("description", "")) if part),
        scheme=next((name for requirement in operation["security"] for name in requirement), ""),
        parameters=tuple(_parameter(parameter) for parameter in [*path_parameters, *operation.get("parameters", ())]),
        body=describe_type(schema) if schema else SafeString(),
        responses=tuple(
            _response(status, response)
            for status, response in operation["responses"].items()
            if "description" in response
        ),
        curl=_curl(path, method, operation),
    )


def _parameter(parameter: Mapping[str, Any]) -> Row:
    return Row(
        name=parameter["name"],
        kind=describe_type(parameter["schema"]),
        text=to_html(parameter["description"]),
        place=parameter["in"],
        required=parameter.get("required", False),
    )


def _response(status: str, response: Mapping[str, Any]) -> Response:
    schema = next((media["schema"] for media in response.get("content", {}).values()), None)
    codes = tuple(response.get("x-error-codes", ()))
    is_error = status[0] in "45"
    return Response(
        status=status,
        text=SafeString() if is_error else to_html(response["description"]),
        kind=describe_type(schema) if schema and not is_error else SafeString(),
        codes=codes,
    )


def _members(schema: Mapping[str, Any]) -> Iterator[Row]:
    for name, member in schema.get("properties", {}).items():
        yield Row(
            name=name,
            kind=describe_type(member),
            text=to_html(member.get("description", "")),
            required=name in schema.get("required", ()),
        )


def _curl(path: str, method: str, operation: Mapping[str, Any]) -> str:
    """A curl command for the operation; `$URL` is the address of the service."""
    required = [parameter for parameter in operation.get("parameters", ()) if parameter["required"]]
    query = "&".join(f"{parameter['name']}={parameter['schema'].get('enum', ['…'])[0]}" for parameter in required)
    parts = [f"curl -X {method.upper()}" if method != "get" else "curl", f'"$URL{path}{"?" + query if query else ""}"']
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    for media_type, media in operation.get("requestBody", {}).get("content", {}).items():
        example = media["example"] if "example" in media else next(iter(media["examples"].values()))["value"]
        if media_type == "application/json":
            parts.append(f"-d '{orjson.dumps(example).decode()}'")
        else:
            parts += [f"-d '{name}={value}'" for name, value in example.items()]
    return " ".join(parts)
