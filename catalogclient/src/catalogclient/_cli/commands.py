"""Commands. Each calls the catalog and returns its output."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from catalogclient import (
    InvalidArgumentError,
    InvalidResponseError,
    RestCatalog,
    get_current_schema,
    requirements,
    types,
    updates,
)
from catalogclient._cli.display import Output, Table, name

MASK = "********"
OPEN_KEYS = frozenset(
    {
        "client.region",
        "expiration-time",
        "s3.endpoint",
        "s3.path-style-access",
        "s3.region",
        "s3.session-token-expires-at-ms",
    }
)
"""Keys of a credential whose values are not secret. All other values are masked."""


def list_names(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    namespaces = list(catalog.iter_namespaces(parent=arguments.namespace or None, recursive=arguments.recursive))
    document: dict[str, Any] = {"namespaces": [list(identifier.namespace) for identifier in namespaces]}
    rows = [("namespace", name(identifier.namespace)) for identifier in namespaces]
    if arguments.namespace:
        list_objects = catalog.iter_views if arguments.views else catalog.iter_tables
        objects = list(list_objects(arguments.namespace))
        document["views" if arguments.views else "tables"] = [identifier.to_dict() for identifier in objects]
        kind = "view" if arguments.views else "table"
        rows += [(kind, name((*identifier.namespace, identifier.name))) for identifier in objects]
        if not rows:
            # Some servers return an empty list for an unknown namespace.
            catalog.load_namespace_metadata(arguments.namespace)
    return Output(document=document, tables=[Table(title="", columns=("kind", "name"), rows=rows)])


def show(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    if arguments.view:
        view = catalog.load_view_result(arguments.table)
        return Output(
            document={"metadata-location": view.metadata_location, "metadata": view.metadata},
            tables=_view_tables(arguments.table, view.metadata),
        )
    table = catalog.load_table_result(arguments.table)
    return Output(
        document={"metadata-location": table.metadata_location, "metadata": table.metadata},
        tables=_table_tables(arguments.table, table.metadata, table.metadata_location),
    )


def _table_tables(table: tuple[str, ...], metadata: types.TableMetadata, location: str | None) -> list[Table]:
    facts = [
        ("uuid", metadata.get("table-uuid")),
        ("format version", metadata.get("format-version")),
        ("location", metadata.get("location")),
        ("metadata", location),
        ("last updated", _time(metadata.get("last-updated-ms"))),
    ]
    try:
        schema = get_current_schema(metadata)
    except InvalidArgumentError as error:
        # The metadata is an argument of this function, but comes from the server.
        raise InvalidResponseError("the response is invalid") from error
    refs = metadata.get("refs") or {}
    times = {snapshot["snapshot-id"]: _time(snapshot["timestamp-ms"]) for snapshot in metadata.get("snapshots") or ()}
    return [
        Table(title=name(table), rows=facts),
        _columns(schema["fields"] if schema else []),
        _pairs("properties", metadata.get("properties") or {}),
        Table(
            title="references",
            columns=("name", "type", "snapshot", "time"),
            rows=[
                (ref, entry["type"], entry["snapshot-id"], times.get(entry["snapshot-id"]))
                for ref, entry in refs.items()
            ],
        ),
    ]


def _view_tables(view: tuple[str, ...], metadata: types.ViewMetadata) -> list[Table]:
    current = next(
        (version for version in metadata["versions"] if version["version-id"] == metadata["current-version-id"]), None
    )
    statements = current["representations"] if current else []
    facts = [("uuid", metadata["view-uuid"]), ("location", metadata["location"])]
    return [
        Table(title=name(view), rows=facts),
        Table(
            title="SQL",
            columns=("dialect", "text"),
            rows=[(statement["dialect"], statement["sql"]) for statement in statements],
        ),
        _pairs("properties", metadata.get("properties") or {}),
    ]


def _columns(fields: list[types.StructField]) -> Table:
    return Table(
        title="columns",
        columns=("id", "name", "type", "required", "comment"),
        rows=[
            (field["id"], field["name"], _type(field["type"]), field["required"], field.get("doc")) for field in fields
        ],
    )


def _type(value: types.IcebergType) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pairs(title: str, pairs: Mapping[str, str]) -> Table:
    return Table(title=title, columns=("key", "value"), rows=sorted(pairs.items()))


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    try:
        return dt.datetime.fromtimestamp(milliseconds / 1000, tz=dt.UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)


def properties(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    set_, removals = dict(arguments.set), list(arguments.remove)
    if arguments.table:
        pairs = _table_properties(catalog, arguments.name, set_, removals)
    else:
        if set_ or removals:
            catalog.update_namespace_properties(arguments.name, updates=set_, removals=removals)
        pairs = catalog.load_namespace_metadata(arguments.name).properties
    return Output(document=dict(pairs), tables=[_pairs(name(arguments.name), pairs)])


def _table_properties(
    catalog: RestCatalog, table: tuple[str, ...], set_: dict[str, str], removals: list[str]
) -> dict[str, str]:
    metadata = catalog.load_table(table, snapshots="refs")
    changes: list[types.TableUpdate] = []
    if set_:
        changes.append(updates.set_properties(set_))
    if removals:
        changes.append(updates.remove_properties(removals))
    if changes:
        metadata = catalog.update_table(
            table, requirements=requirements.for_update(metadata, changes), updates=changes
        ).metadata
    return metadata.get("properties") or {}


def create(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    request = _request(arguments.schema)
    request["name"] = arguments.table[-1]
    if arguments.location:
        request["location"] = arguments.location
    if arguments.property:
        request["properties"] = {**(request.get("properties") or {}), **dict(arguments.property)}
    result = catalog.create_table_result(arguments.table[:-1], request)
    return Output(
        document={"metadata-location": result.metadata_location, "metadata": result.metadata},
        tables=_table_tables(arguments.table, result.metadata, result.metadata_location),
    )


def _request(file: Path) -> types.CreateTableRequest:
    """Read a create request from a file that contains the request or only its schema."""
    try:
        document = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{file} is not JSON: {error}") from error
    if isinstance(document, dict) and document.get("type") == "struct":
        document = {"schema": document}
    if not isinstance(document, dict) or not isinstance(document.get("schema"), dict):
        raise InvalidArgumentError(f"{file} contains neither a schema nor a create request with a schema")
    if not isinstance(document.get("properties") or {}, dict):
        raise InvalidArgumentError(f"the properties in {file} are not an object")
    request: types.CreateTableRequest = document  # type: ignore[assignment]  # the server checks the rest
    return request


def create_namespace(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    result = catalog.create_namespace(arguments.namespace, dict(arguments.property) or None)
    levels = result.namespace.namespace
    return Output(
        document={"namespace": list(levels), "properties": dict(result.properties)},
        tables=[_pairs(name(levels), result.properties)],
    )


def rename(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    if arguments.view:
        catalog.rename_view(arguments.source, arguments.destination)
    else:
        catalog.rename_table(arguments.source, arguments.destination)
    return _done("renamed", arguments.destination)


def drop(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    if arguments.view:
        catalog.drop_view(arguments.table)
    else:
        catalog.drop_table(arguments.table, purge=arguments.purge)
    return _done("dropped", arguments.table)


def drop_namespace(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    catalog.drop_namespace(arguments.namespace)
    return _done("dropped", arguments.namespace)


def _done(action: str, subject: tuple[str, ...]) -> Output:
    return Output(document={action: list(subject)}, tables=[Table(title="", rows=[(action, name(subject))])])


def credentials(catalog: RestCatalog, arguments: argparse.Namespace) -> Output:
    result = catalog.load_credentials(arguments.table, fallback=True)
    configs = [(credential.prefix, mask(credential.config)) for credential in result]
    return Output(
        document=[{"prefix": prefix, "config": config} for prefix, config in configs],
        tables=[_pairs(prefix, config) for prefix, config in configs]
        or [Table(title="", rows=[("the server returned no credentials for", name(arguments.table))])],
    )


def mask(config: Mapping[str, str]) -> dict[str, str]:
    return {key: value if key in OPEN_KEYS else MASK for key, value in config.items()}


COMMANDS: dict[str, Callable[[RestCatalog, argparse.Namespace], Output]] = {
    "list": list_names,
    "show": show,
    "properties": properties,
    "create": create,
    "create-namespace": create_namespace,
    "rename": rename,
    "drop": drop,
    "drop-namespace": drop_namespace,
    "credentials": credentials,
}
