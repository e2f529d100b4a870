"""Commands. Each calls the catalog and returns its output."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from catalogclient import InvalidArgumentError, RestCatalog, requirements, types, updates
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


def list_names(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    namespaces = list(catalog.iter_namespaces(parent=given.namespace or None, recursive=given.recursive))
    document: dict[str, Any] = {"namespaces": [list(each.namespace) for each in namespaces]}
    rows = [("namespace", name(each.namespace)) for each in namespaces]
    if given.namespace:
        found = catalog.iter_views(given.namespace) if given.views else catalog.iter_tables(given.namespace)
        held = list(found)
        document["views" if given.views else "tables"] = [each.to_dict() for each in held]
        kind = "view" if given.views else "table"
        rows += [(kind, name((*each.namespace, each.name))) for each in held]
        if not rows:
            # Some servers return an empty list for an unknown namespace.
            catalog.load_namespace_metadata(given.namespace)
    return Output(document=document, tables=[Table(title="", columns=("kind", "name"), rows=rows)])


def show(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    if given.view:
        view = catalog.load_view_result(given.table)
        return Output(
            document={"metadata-location": view.metadata_location, "metadata": view.metadata},
            tables=_view_tables(given.table, view.metadata),
        )
    table = catalog.load_table_result(given.table)
    return Output(
        document={"metadata-location": table.metadata_location, "metadata": table.metadata},
        tables=_table_tables(given.table, table.metadata, table.metadata_location),
    )


def _table_tables(table: tuple[str, ...], metadata: types.TableMetadata, location: str | None) -> list[Table]:
    facts = [
        ("uuid", metadata.get("table-uuid")),
        ("format version", metadata.get("format-version")),
        ("location", metadata.get("location")),
        ("metadata", location),
        ("last updated", _time(metadata.get("last-updated-ms"))),
    ]
    schemas = metadata.get("schemas") or ()
    fields = next(
        (each["fields"] for each in schemas if each.get("schema-id") == metadata.get("current-schema-id")), []
    )
    refs = metadata.get("refs") or {}
    times = {each["snapshot-id"]: _time(each["timestamp-ms"]) for each in metadata.get("snapshots") or ()}
    return [
        Table(title=name(table), rows=facts),
        _columns(fields),
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
        (each for each in metadata["versions"] if each["version-id"] == metadata["current-version-id"]), None
    )
    statements = current["representations"] if current else []
    facts = [("uuid", metadata["view-uuid"]), ("location", metadata["location"])]
    return [
        Table(title=name(view), rows=facts),
        Table(title="SQL", columns=("dialect", "text"), rows=[(each["dialect"], each["sql"]) for each in statements]),
        _pairs("properties", metadata.get("properties") or {}),
    ]


def _columns(fields: list[types.StructField]) -> Table:
    return Table(
        title="columns",
        columns=("id", "name", "type", "required", "comment"),
        rows=[(each["id"], each["name"], _type(each["type"]), each["required"], each.get("doc")) for each in fields],
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


def properties(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    set_, removed = dict(given.set), list(given.remove)
    if given.table:
        found = _table_properties(catalog, given.name, set_, removed)
    else:
        if set_ or removed:
            catalog.update_namespace_properties(given.name, updates=set_, removals=removed)
        found = catalog.load_namespace_metadata(given.name).properties
    return Output(document=dict(found), tables=[_pairs(name(given.name), found)])


def _table_properties(
    catalog: RestCatalog, table: tuple[str, ...], set_: dict[str, str], removed: list[str]
) -> dict[str, str]:
    metadata = catalog.load_table(table, snapshots="refs")
    changes: list[types.TableUpdate] = []
    if set_:
        changes.append(updates.set_properties(set_))
    if removed:
        changes.append(updates.remove_properties(removed))
    if changes:
        metadata = catalog.update_table(
            table, requirements=requirements.for_update(metadata, changes), updates=changes
        ).metadata
    return metadata.get("properties") or {}


def create(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    request = _request(given.schema)
    request["name"] = given.table[-1]
    if given.location:
        request["location"] = given.location
    if given.property:
        request["properties"] = {**request.get("properties", {}), **dict(given.property)}
    made = catalog.create_table_result(given.table[:-1], request)
    return Output(
        document={"metadata-location": made.metadata_location, "metadata": made.metadata},
        tables=_table_tables(given.table, made.metadata, made.metadata_location),
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
    request: types.CreateTableRequest = document  # type: ignore[assignment]  # the server checks the rest
    return request


def create_namespace(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    made = catalog.create_namespace(given.namespace, dict(given.property) or None)
    return Output(
        document={"namespace": list(made.namespace.namespace), "properties": dict(made.properties)},
        tables=[_pairs(name(made.namespace.namespace), made.properties)],
    )


def rename(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    if given.view:
        catalog.rename_view(given.source, given.destination)
    else:
        catalog.rename_table(given.source, given.destination)
    return _done("renamed", given.destination)


def drop(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    if given.view:
        catalog.drop_view(given.table)
    else:
        catalog.drop_table(given.table, purge=given.purge)
    return _done("dropped", given.table)


def drop_namespace(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    catalog.drop_namespace(given.namespace)
    return _done("dropped", given.namespace)


def _done(action: str, subject: tuple[str, ...]) -> Output:
    return Output(document={action: list(subject)}, tables=[Table(title="", rows=[(action, name(subject))])])


def credentials(catalog: RestCatalog, given: argparse.Namespace) -> Output:
    held = [(each.prefix, masked(each.config)) for each in catalog.load_credentials(given.table, fallback=True)]
    return Output(
        document=[{"prefix": prefix, "config": config} for prefix, config in held],
        tables=[_pairs(prefix, config) for prefix, config in held]
        or [Table(title="", rows=[("the server returned no credentials for", name(given.table))])],
    )


def masked(config: Mapping[str, str]) -> dict[str, str]:
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
