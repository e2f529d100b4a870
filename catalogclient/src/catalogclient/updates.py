"""Builders for the updates of tables and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from catalogclient import _guards, types

LAST_ADDED = -1
"""Id that refers to the schema, spec, sort order or view version added last in the same commit."""


def assign_uuid(uuid: str) -> types.AssignUuid:
    return {"action": "assign-uuid", "uuid": uuid}


def upgrade_format_version(format_version: int) -> types.UpgradeFormatVersion:
    return {"action": "upgrade-format-version", "format-version": format_version}


def add_schema(schema: types.Schema, *, last_column_id: int | None = None) -> types.AddSchema:
    """`last_column_id` is deprecated by the specification, but required by Nessie. It is the highest id by default."""
    last = _highest_id(schema) if last_column_id is None else last_column_id
    return {"action": "add-schema", "schema": schema, "last-column-id": last}


def set_current_schema(schema_id: int = LAST_ADDED) -> types.SetCurrentSchema:
    return {"action": "set-current-schema", "schema-id": schema_id}


def add_spec(spec: types.PartitionSpec) -> types.AddSpec:
    return {"action": "add-spec", "spec": spec}


def set_default_spec(spec_id: int = LAST_ADDED) -> types.SetDefaultSpec:
    return {"action": "set-default-spec", "spec-id": spec_id}


def add_sort_order(sort_order: types.SortOrder) -> types.AddSortOrder:
    return {"action": "add-sort-order", "sort-order": sort_order}


def set_default_sort_order(sort_order_id: int = LAST_ADDED) -> types.SetDefaultSortOrder:
    return {"action": "set-default-sort-order", "sort-order-id": sort_order_id}


def add_snapshot(snapshot: types.Snapshot) -> types.AddSnapshot:
    return {"action": "add-snapshot", "snapshot": snapshot}


def set_snapshot_ref(
    name: str,
    *,
    snapshot_id: int,
    type: Literal["branch", "tag"] = "branch",
    max_ref_age_ms: int | None = None,
    max_snapshot_age_ms: int | None = None,
    min_snapshots_to_keep: int | None = None,
) -> types.SetSnapshotRef:
    update: types.SetSnapshotRef = {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "type": type,
        "snapshot-id": snapshot_id,
    }
    if max_ref_age_ms is not None:
        update["max-ref-age-ms"] = max_ref_age_ms
    if max_snapshot_age_ms is not None:
        update["max-snapshot-age-ms"] = max_snapshot_age_ms
    if min_snapshots_to_keep is not None:
        update["min-snapshots-to-keep"] = min_snapshots_to_keep
    return update


def remove_snapshots(snapshot_ids: Iterable[int]) -> types.RemoveSnapshots:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def remove_snapshot_ref(name: str) -> types.RemoveSnapshotRef:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def set_location(location: str) -> types.SetLocation:
    return {"action": "set-location", "location": location}


def set_properties(updates: Mapping[str, str]) -> types.SetProperties:
    return {"action": "set-properties", "updates": dict(updates)}


def remove_properties(removals: Iterable[str]) -> types.RemoveProperties:
    return {"action": "remove-properties", "removals": list(removals)}


def set_statistics(statistics: types.StatisticsFile) -> types.SetStatistics:
    return {"action": "set-statistics", "statistics": statistics, "snapshot-id": statistics["snapshot-id"]}


def remove_statistics(snapshot_id: int) -> types.RemoveStatistics:
    return {"action": "remove-statistics", "snapshot-id": snapshot_id}


def set_partition_statistics(partition_statistics: types.PartitionStatisticsFile) -> types.SetPartitionStatistics:
    return {"action": "set-partition-statistics", "partition-statistics": partition_statistics}


def remove_partition_statistics(snapshot_id: int) -> types.RemovePartitionStatistics:
    return {"action": "remove-partition-statistics", "snapshot-id": snapshot_id}


def remove_partition_specs(spec_ids: Iterable[int]) -> types.RemovePartitionSpecs:
    return {"action": "remove-partition-specs", "spec-ids": list(spec_ids)}


def remove_schemas(schema_ids: Iterable[int]) -> types.RemoveSchemas:
    return {"action": "remove-schemas", "schema-ids": list(schema_ids)}


def add_encryption_key(encryption_key: types.EncryptedKey) -> types.AddEncryptionKey:
    return {"action": "add-encryption-key", "encryption-key": encryption_key}


def remove_encryption_key(key_id: str) -> types.RemoveEncryptionKey:
    return {"action": "remove-encryption-key", "key-id": key_id}


def add_view_version(view_version: types.ViewVersion) -> types.AddViewVersion:
    return {"action": "add-view-version", "view-version": view_version}


def set_current_view_version(view_version_id: int = LAST_ADDED) -> types.SetCurrentViewVersion:
    return {"action": "set-current-view-version", "view-version-id": view_version_id}


def combine(*changes: types.TableUpdate) -> list[types.TableUpdate]:
    """Return updates as a list whose type needs no annotation."""
    return list(changes)


def from_staged(metadata: types.TableMetadata) -> list[types.TableUpdate]:
    """Return the updates that create a table from the metadata of a staged create. Commit with `assert_create`."""
    found: list[types.TableUpdate] = [
        assign_uuid(metadata["table-uuid"]),
        upgrade_format_version(metadata["format-version"]),
    ]
    for schema in metadata.get("schemas") or ():
        if schema.get("schema-id") == metadata.get("current-schema-id"):
            found += [add_schema(schema, last_column_id=metadata.get("last-column-id")), set_current_schema()]
    for spec in metadata.get("partition-specs") or ():
        if spec.get("spec-id") == metadata.get("default-spec-id"):
            found += [add_spec(spec), set_default_spec()]
    for order in metadata.get("sort-orders") or ():
        if order["order-id"] == metadata.get("default-sort-order-id"):
            found += [add_sort_order(order), set_default_sort_order()]
    if "location" in metadata:
        found.append(set_location(metadata["location"]))
    properties = metadata.get("properties")
    if properties:
        found.append(set_properties(properties))
    return found


def _highest_id(type: Any) -> int:
    """Return the highest field id in a type. It is 0 for a primitive type."""
    if not isinstance(type, dict):
        return 0
    fields = type.get("fields", ())
    ids = [each["id"] for each in fields] + [type.get(key, 0) for key in ("element-id", "key-id", "value-id")]
    inner = [each["type"] for each in fields] + [type.get(key) for key in ("element", "key", "value")]
    highest: int = max([*ids, *map(_highest_id, inner)])
    return highest


_guards.guard_public_functions(globals())
