"""Builds an example of each request body and each response from its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from authsvc.api.parsing import Body

Schema = Mapping[str, Any]

_TIME = "2026-01-15T10:30:00Z"
_VALUES: dict[str, Any] = {
    "email": "ada@example.com",
    "password": "correct horse 1",
    "phone": "15551234567",
    "aud": "authenticated",
    "role": "authenticated",
    "type": "signup",
    "factor_type": "totp",
    "token": "123456",
    "code": "123456",
    "codes": ["k3v8-2mqp", "x7d4-9rnc"],
    "remaining": 10,
    "expires_in": 3600,
    "expires_at": 1768473000,
    "access_token": "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiI…",
    "refresh_token": "AQIDBAUGBwgJCgsMDQ4PEA…",
    "id_token": "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiI…",
    "auth_code": "7d0e2c1a-5f0b-4f5c-9a53-2d4a4c8f1b6e",
    "code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    "provider": "google",
    "client_id": "example-client",
    "client_secret": "…",
    "ban_duration": "24h",
    "data": {"name": "Ada"},
    "channel": "sms",
    "provider_type": "oidc",
    "identifier": "custom:example",
    "friendly_name": "laptop",
    "identity_id": "b7a2f3de-1c46-4d3a-8a0e-6f1f6f0c9c11",
    "user_id": "6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0f9",
    "challenge_id": "0c9d8e7f-6a5b-4c3d-9e1f-2a3b4c5d6e7f",
    "app_metadata": {"provider": "email", "providers": ["email"]},
    "user_metadata": {"name": "Ada"},
    "identity_data": {"sub": "6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0f9", "email": "ada@example.com"},
    "payload": {"action": "login", "actor_username": "ada@example.com"},
    "ip_address": "203.0.113.7",
    "created_at": _TIME,
    "updated_at": _TIME,
    "is_anonymous": False,
    "name": "Example",
    "msg": "Confirmation link accepted",
    "version": "0.1.0",
    "issuer": "https://auth.example.com",
    "url": "https://provider.example.com/authorize?client_id=…",
    "redirect_to": "https://app.example.com/",
    "uri": "otpauth://totp/Example:ada@example.com?secret=JBSWY3DPEHPK3PXP",
    "secret": "JBSWY3DPEHPK3PXP",
    "qr_code": "data:image/svg+xml;utf-8,<svg …/>",
    "message_id": "5d41402a-bc4b-4a76-b971-9d911017c592",
    "state": "2f6c1f0e-8f5e-4a7b-9d3c-1e2f3a4b5c6d",
}
_ID = "6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0f9"
_BY_FORMAT = {"uuid": _ID, "date-time": _TIME}
_BY_TYPE = {"string": "…", "integer": 1, "number": 1, "boolean": True, "object": {}, "array": [], "null": None}
_CREDENTIALS = ("email", "password")


def response_example(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """An example of a response: the required members. `schemas` holds the named schemas."""
    return _value("", schema, schemas)


def request_example(body: type[Body], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """An example of a body: the members that its class names, else the required ones with the credentials."""
    schema = schemas[body.__name__]
    properties = schema.get("properties", {})
    needed = {*schema.get("required", ()), *_CREDENTIALS}
    names = body.example or [name for name in properties if name in needed]
    return {name: _value(name, properties[name], schemas) for name in names}


def _resolve(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """The schema behind references; of several alternatives the first one."""
    while "$ref" in schema or "anyOf" in schema or "allOf" in schema:
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rpartition("/")[2]]
        else:
            schema = (schema.get("allOf") or schema["anyOf"])[0]
    return schema


def _value(name: str, schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    resolved = _resolve(schema, schemas)
    if resolved.get("enum"):
        permitted = resolved["enum"]
        return _VALUES[name] if _VALUES.get(name) in permitted else permitted[0]
    types = resolved.get("type", "object")
    kind = types[0] if isinstance(types, list) else types
    if name in _VALUES and kind == _json_type(_VALUES[name]):
        return _VALUES[name]
    if resolved.get("format") in _BY_FORMAT:
        return _BY_FORMAT[resolved["format"]]
    if kind == "array" and "items" in resolved:
        return [_value("", resolved["items"], schemas)]
    if "properties" in resolved:
        required = resolved.get("required", ())
        return {
            member: _value(member, member_schema, schemas)
            for member, member_schema in resolved["properties"].items()
            if member in required
        }
    return _BY_TYPE[kind]


def _json_type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return names[type(value)]
