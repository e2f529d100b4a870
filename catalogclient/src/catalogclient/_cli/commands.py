"""The commands: each asks the catalog and says what was found or done."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from catalogclient import InvalidArgumentError, RestCatalog, requirements, types, updates
from catalogclient._cli.display import Found, Table, name

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
"""Entries of a credential that are no secrets; every other value is masked."""


def list_names(catalog: RestCatalog, given: argparse.Namespace) -> Found:
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
            # Some servers answer an empty list for a namespace that does not exist.
            catalog.load_namespace_metadata(given.namespace)
    return Found(document=document, tables=[Table(title="", columns=("kind", "name"), rows=rows)])


def show(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    if given.view:
        view = catalog.load_view_result(given.table)
        return Found(
            document={"metadata-location": view.metadata_location, "metadata": view.metadata},
            tables=_view_tables(given.table, view.metadata),
        )
    table = catalog.load_table_result(given.table)
    return Found(
        document={"metadata-location": table.metadata_location, "metadata": table.metadata},
        tables=_table_tables(given.table, table.metadata, table.metadata_location),
    )


def _table_tables(table: tuple[str, ...], metadata: types.TableMetadata, location: str | None) -> list[Table]:
    facts = [
        ("uuid", metadata["table-uuid"]),
        ("format version", metadata["format-version"]),
        ("location", metadata.get("location")),
        ("metadata", location),
        ("last updated", _time(metadata.get("last-updated-ms"))),
    ]
    schemas = metadata.get("schemas", [])
    fields = next(
        (each["fields"] for each in schemas if each.get("schema-id") == metadata.get("current-schema-id")), []
    )
    refs = metadata.get("refs", {})
    times = {each["snapshot-id"]: _time(each["timestamp-ms"]) for each in metadata.get("snapshots", [])}
    return [
        Table(title=name(table), rows=facts),
        _columns(fields),
        _pairs("properties", metadata.get("properties", {})),
        Table(
            title="references",
            columns=("name", "type", "snapshot", "of"),
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
        _pairs("properties", metadata.get("properties", {})),
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
    return dt.datetime.fromtimestamp(milliseconds / 1000, tz=dt.UTC).isoformat(timespec="seconds")


def properties(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    set_, removed = dict(given.set), list(given.remove)
    if given.table:
        found = _table_properties(catalog, given.name, set_, removed)
    else:
        if set_ or removed:
            catalog.update_namespace_properties(given.name, updates=set_, removals=removed)
        found = catalog.load_namespace_metadata(given.name).properties
    return Found(document=dict(found), tables=[_pairs(name(given.name), found)])


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
        # Dropped and made again meanwhile, it would be another table.
        same_table = [requirements.assert_table_uuid(metadata["table-uuid"])]
        metadata = catalog.update_table(table, requirements=same_table, updates=changes).metadata
    return metadata.get("properties", {})


def create(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    request = _request(given.schema)
    request["name"] = given.table[-1]
    if given.location:
        request["location"] = given.location
    if given.property:
        request["properties"] = {**request.get("properties", {}), **dict(given.property)}
    made = catalog.create_table_result(given.table[:-1], request)
    return Found(
        document={"metadata-location": made.metadata_location, "metadata": made.metadata},
        tables=_table_tables(given.table, made.metadata, made.metadata_location),
    )


def _request(file: Path) -> types.CreateTableRequest:
    """A request to create a table, from a file that holds one or only its schema."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{file} is not JSON: {error}") from error
    if isinstance(document, dict) and document.get("type") == "struct":
        document = {"schema": document}
    if not isinstance(document, dict) or not isinstance(document.get("schema"), dict):
        raise InvalidArgumentError(f"{file} holds neither a schema nor a request with a schema")
    request: types.CreateTableRequest = document  # type: ignore[assignment]
    return request


def create_namespace(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    made = catalog.create_namespace(given.namespace, dict(given.property) or None)
    return Found(
        document={"namespace": list(made.namespace.namespace), "properties": dict(made.properties)},
        tables=[_pairs(name(made.namespace.namespace), made.properties)],
    )


def rename(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    if given.view:
        catalog.rename_view(given.source, given.destination)
    else:
        catalog.rename_table(given.source, given.destination)
    return _done("renamed", given.destination)


def drop(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    if given.view:
        catalog.drop_view(given.table)
    else:
        catalog.drop_table(given.table, purge=given.purge)
    return _done("dropped", given.table)


def drop_namespace(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    catalog.drop_namespace(given.namespace)
    return _done("dropped", given.namespace)


def _done(what: str, subject: tuple[str, ...]) -> Found:
    return Found(document={what: list(subject)}, tables=[Table(title="", rows=[(what, name(subject))])])


def credentials(catalog: RestCatalog, given: argparse.Namespace) -> Found:
    held = [(each.prefix, masked(each.config)) for each in catalog.load_credentials(given.table, fallback=True)]
    return Found(
        document=[{"prefix": prefix, "config": config} for prefix, config in held],
        tables=[_pairs(prefix, config) for prefix, config in held]
        or [Table(title="", rows=[("no credentials are handed out for", name(given.table))])],
    )


def masked(config: Mapping[str, str]) -> dict[str, str]:
    return {key: value if key in OPEN_KEYS else MASK for key, value in config.items()}


COMMANDS: dict[str, Callable[[RestCatalog, argparse.Namespace], Found]] = {
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
