"""JSON Schema of request bodies and responses, with docstrings as descriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NotRequired, TypedDict

import msgspec

from authsvc.api.openapi import descriptions
from authsvc.api.parsing import Body

PLACE = "#/components/schemas/{name}"
_NULL = {"type": "null"}


class Error(TypedDict):
    """An error in the initial format."""

    code: int
    """The HTTP status."""
    error_code: str
    """The stable error code."""
    msg: str
    """The error text; it may change."""
    hint: NotRequired[str]
    """Instruction for a correction; only if `AUTH_API_DOCS_ENABLED` is set or the development inbox is enabled."""
    error_id: NotRequired[str]
    """For server failures: the id of the request in the log."""
    weak_password: NotRequired[WeakPasswordReasons]
    """Only for `weak_password`."""
    error: NotRequired[str]
    """The error code of RFC 6749 or RFC 7591; only at the OAuth server's endpoints for applications."""
    error_description: NotRequired[str]
    """As `msg`, beside `error`."""


class VersionedError(TypedDict):
    """An error in the format of API version 2024-01-01."""

    code: str
    """The stable error code."""
    message: str
    """The error text; it may change."""
    hint: NotRequired[str]
    """As in `Error`."""
    weak_password: NotRequired[WeakPasswordReasons]
    """Only for `weak_password`."""
    error: NotRequired[str]
    """As in `Error`."""
    error_description: NotRequired[str]
    """As in `Error`."""


class WeakPasswordReasons(TypedDict):
    """The requirements that a password does not meet."""

    reasons: list[str]
    """`length`, `characters`, `pwned`."""


class OAuthErrorResponse(TypedDict):
    """An error in the format of RFC 6749 §5.2."""

    error: str
    error_description: str


class TriggerError(TypedDict):
    """The message of a database trigger that the operator adds."""

    code: str
    """The SQLSTATE."""
    message: str
    hint: NotRequired[str]
    detail: NotRequired[str]


ERRORS = (Error, VersionedError, OAuthErrorResponse, TriggerError)
_ANY_ERROR = {
    "description": "An error in the format that the client requests, or the message of a trigger.",
    "anyOf": [{"$ref": PLACE.format(name=schema.__name__)} for schema in (Error, VersionedError, TriggerError)],
}


def components(types: list[Any]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """A schema for each type, and the named schemas that they refer to."""
    classes = list(_find_types(msgspec.inspect.multi_type_info([*types, *ERRORS])))
    schemas, schemas_by_name = msgspec.json.schema_components([*types, *ERRORS], ref_template=PLACE)
    sources = {class_.__name__: class_ for class_ in classes}
    if len(sources) != len(classes):
        raise ValueError(f"two types have the same name: {sorted(class_.__name__ for class_ in classes)}")
    described = {name: _describe(schema, sources[name]) for name, schema in sorted(schemas_by_name.items())}
    return [_simplify(schema) for schema in schemas[: len(types)]], {"AnyError": _ANY_ERROR, **described}


def _find_types(type_infos: Iterable[Any]) -> set[type]:
    """The classes that the types refer to, recursively."""
    classes: set[type] = set()
    waiting: list[Any] = list(type_infos)
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.TypedDictType):
            if info.cls in classes:
                continue
            classes.add(info.cls)
            waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.Metadata):
            waiting.append(info.type)
        elif isinstance(info, msgspec.inspect.ListType):
            waiting.append(info.item_type)
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
    return classes


def _describe(schema: dict[str, Any], source: type) -> dict[str, Any]:
    """The schema with descriptions, in the order of the source."""
    needed = source.needs if issubclass(source, Body) else ()
    texts = descriptions.describe_fields(source)
    names = [name for name in texts if name in schema["properties"]]
    if set(names) != set(schema["properties"]):
        raise ValueError(f"{source.__name__}: no source for {sorted(set(schema['properties']) - set(names))}")
    properties = {}
    for name in names:
        member = _simplify(schema["properties"][name])
        if name in needed and isinstance(member.get("type"), list):
            member["type"] = member["type"][0]
        if texts[name]:
            member = {"description": texts[name], **member}
        properties[name] = member
    text = descriptions.unwrap_paragraphs(source.__dict__.get("__doc__") or "") if source.__doc__ else ""
    required = [name for name in names if name in needed or name in schema.get("required", ())]
    return {
        **({"description": text} if text else {}),
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _simplify(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without default and title, and with `T or null` as a list of types where possible.

    Arrays name their items and enumerations their type, because generators of clients need both.
    """
    simplified = {key: value for key, value in schema.items() if key not in ("default", "title")}
    choices = simplified.get("anyOf", [])
    if len(choices) == 2 and _NULL in choices:
        (type_schema,) = (choice for choice in choices if choice != _NULL)
        if "type" in type_schema:
            del simplified["anyOf"]
            simplified |= {**type_schema, "type": [type_schema["type"], "null"]}
    if "array" in simplified.get("type", ()):
        simplified.setdefault("items", {})
    if "enum" in simplified and all(isinstance(value, str) for value in simplified["enum"]):
        simplified.setdefault("type", "string")
    for key in ("items", "additionalProperties"):
        if isinstance(simplified.get(key), dict):
            simplified[key] = _simplify(simplified[key])
    return simplified
