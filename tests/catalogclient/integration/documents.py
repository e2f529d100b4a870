"""Request documents for real servers."""

from __future__ import annotations

from catalogclient import types

SCHEMA: types.Schema = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True, "doc": "number of the order"},
        {"id": 2, "name": "town", "type": "string", "required": False},
    ],
}


def table(name: str, **more: str) -> types.CreateTableRequest:
    """Return a request to create a table with properties `more`."""
    request: types.CreateTableRequest = {"name": name, "schema": SCHEMA}
    if more:
        request["properties"] = more
    return request


def version(number: int, sql: str, *, namespace: str) -> types.ViewVersion:
    return {
        "version-id": number,
        "timestamp-ms": 1_760_000_000_000 + number,
        "schema-id": 0,
        "summary": {"engine-name": "test"},
        "default-namespace": [namespace],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }


def view(name: str, *, namespace: str) -> types.CreateViewRequest:
    """Return a request to create a view."""
    return {
        "name": name,
        "schema": SCHEMA,
        "view-version": version(1, "select 1 as id, 'x' as town", namespace=namespace),
        "properties": {"owner": "sales"},
    }
