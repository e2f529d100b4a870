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
    error_id: NotRequired[str]
    """For server failures: the id of the request in the log."""
    weak_password: NotRequired[WeakPasswordReasons]
    """Only for `weak_password`."""


class VersionedError(TypedDict):
    """An error in the format of API version 2024-01-01."""

    code: str
    """The stable error code."""
    message: str
    """The error text; it may change."""
    weak_password: NotRequired[WeakPasswordReasons]
    """Only for `weak_password`."""


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
    "anyOf": [{"$ref": PLACE.format(name=each.__name__)} for each in (Error, VersionedError, TriggerError)],
}


def components(types: list[Any]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """A schema for each type, and the named schemas that they refer to."""
    kinds = list(_named(msgspec.inspect.multi_type_info([*types, *ERRORS])))
    schemas, named = msgspec.json.schema_components([*types, *ERRORS], ref_template=PLACE)
    sources = {kind.__name__: kind for kind in kinds}
    if len(sources) != len(kinds):
        raise ValueError(f"two types have the same name: {sorted(kind.__name__ for kind in kinds)}")
    described = {name: _described(schema, sources[name]) for name, schema in sorted(named.items())}
    return [_plain(schema) for schema in schemas[: len(types)]], {"AnyError": _ANY_ERROR, **described}


def _named(infos: Iterable[Any]) -> set[type]:
    """The classes that the types refer to, recursively."""
    found: set[type] = set()
    waiting: list[Any] = list(infos)
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.TypedDictType):
            if info.cls in found:
                continue
            found.add(info.cls)
            waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.Metadata):
            waiting.append(info.type)
        elif isinstance(info, msgspec.inspect.ListType):
            waiting.append(info.item_type)
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
    return found


def _described(schema: dict[str, Any], source: type) -> dict[str, Any]:
    """The schema with descriptions, in the order of the source."""
    needed = source.needs if issubclass(source, Body) else ()
    words = descriptions.of_fields(source)
    names = [name for name in words if name in schema["properties"]]
    if set(names) != set(schema["properties"]):
        raise ValueError(f"{source.__name__}: no source for {sorted(set(schema['properties']) - set(names))}")
    properties = {}
    for name in names:
        found = _plain(schema["properties"][name])
        if name in needed and isinstance(found.get("type"), list):
            found["type"] = found["type"][0]
        if words[name]:
            found = {"description": words[name], **found}
        properties[name] = found
    text = descriptions.paragraphs(source.__dict__.get("__doc__") or "") if source.__doc__ else ""
    required = [name for name in names if name in needed or name in schema.get("required", ())]
    return {
        **({"description": text} if text else {}),
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without default and title, and with `T or null` as a list of types where possible."""
    found = {key: value for key, value in schema.items() if key not in ("default", "title")}
    choices = found.get("anyOf", [])
    if len(choices) == 2 and _NULL in choices:
        (other,) = (each for each in choices if each != _NULL)
        if "type" in other:
            del found["anyOf"]
            found |= {**other, "type": [other["type"], "null"]}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _plain(found[key])
    return found
