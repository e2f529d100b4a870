"""Builders for the updates of tables and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from catalogclient import _guards, types

LAST_ADDED = -1
"""Id that refers to the schema, spec, sort order or view version added last in the same commit."""


def assign_uuid(uuid: str) -> types.AssignUuid:
    """Assign the UUID of a new table or view. A UUID must not be replaced (OpenAPI, `AssignUUIDUpdate`)."""
    return {"action": "assign-uuid", "uuid": uuid}


def upgrade_format_version(format_version: int) -> types.UpgradeFormatVersion:
    """Upgrade the metadata of a table or view to a higher format version."""
    return {"action": "upgrade-format-version", "format-version": format_version}


def add_schema(schema: types.Schema, *, last_column_id: int | None = None) -> types.AddSchema:
    """Add a schema. Make it the current one with set_current_schema.

    `last_column_id` is deprecated by the specification, but required by Nessie. It is the highest id by default.
    """
    last = _highest_id(schema) if last_column_id is None else last_column_id
    return {"action": "add-schema", "schema": schema, "last-column-id": last}


def set_current_schema(schema_id: int = LAST_ADDED) -> types.SetCurrentSchema:
    """Make a schema the current one. Without an id, it is the schema added last in the same commit."""
    return {"action": "set-current-schema", "schema-id": schema_id}


def add_spec(spec: types.PartitionSpec) -> types.AddSpec:
    """Add a partition spec. Make it the default with set_default_spec."""
    return {"action": "add-spec", "spec": spec}


def set_default_spec(spec_id: int = LAST_ADDED) -> types.SetDefaultSpec:
    """Make a partition spec the default. Without an id, it is the spec added last in the same commit."""
    return {"action": "set-default-spec", "spec-id": spec_id}


def add_sort_order(sort_order: types.SortOrder) -> types.AddSortOrder:
    """Add a sort order. Make it the default with set_default_sort_order."""
    return {"action": "add-sort-order", "sort-order": sort_order}


def set_default_sort_order(sort_order_id: int = LAST_ADDED) -> types.SetDefaultSortOrder:
    """Make a sort order the default. Without an id, it is the order added last in the same commit."""
    return {"action": "set-default-sort-order", "sort-order-id": sort_order_id}


def add_snapshot(snapshot: types.Snapshot) -> types.AddSnapshot:
    """Add a snapshot. It becomes the current one when set_snapshot_ref lets `main` point to it."""
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
    """Create a branch or tag, or let it point to another snapshot. `main` is the current state of the table.

    The ages are in milliseconds. `max_ref_age_ms` applies to every reference except `main`, the limits of snapshots to
    branches only (Iceberg specification, "Snapshot References").
    """
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
    """Remove snapshots by their ids."""
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def remove_snapshot_ref(name: str) -> types.RemoveSnapshotRef:
    """Remove a branch or tag. Its snapshots remain."""
    return {"action": "remove-snapshot-ref", "ref-name": name}


def set_location(location: str) -> types.SetLocation:
    """Set the base location of a table or view, a URI such as `s3://bucket/table`."""
    return {"action": "set-location", "location": location}


def set_properties(updates: Mapping[str, str]) -> types.SetProperties:
    """Add or replace properties of a table or view."""
    return {"action": "set-properties", "updates": dict(updates)}


def remove_properties(removals: Iterable[str]) -> types.RemoveProperties:
    """Remove properties of a table or view by their names."""
    return {"action": "remove-properties", "removals": list(removals)}


def set_statistics(statistics: types.StatisticsFile) -> types.SetStatistics:
    """Set the statistics file of the snapshot `statistics["snapshot-id"]`."""
    return {"action": "set-statistics", "statistics": statistics, "snapshot-id": statistics["snapshot-id"]}


def remove_statistics(snapshot_id: int) -> types.RemoveStatistics:
    """Remove the statistics file of a snapshot."""
    return {"action": "remove-statistics", "snapshot-id": snapshot_id}


def set_partition_statistics(partition_statistics: types.PartitionStatisticsFile) -> types.SetPartitionStatistics:
    """Set the partition statistics file of the snapshot `partition_statistics["snapshot-id"]`."""
    return {"action": "set-partition-statistics", "partition-statistics": partition_statistics}


def remove_partition_statistics(snapshot_id: int) -> types.RemovePartitionStatistics:
    """Remove the partition statistics file of a snapshot."""
    return {"action": "remove-partition-statistics", "snapshot-id": snapshot_id}


def remove_partition_specs(spec_ids: Iterable[int]) -> types.RemovePartitionSpecs:
    """Remove partition specs by their ids. The default spec cannot be removed."""
    return {"action": "remove-partition-specs", "spec-ids": list(spec_ids)}


def remove_schemas(schema_ids: Iterable[int]) -> types.RemoveSchemas:
    """Remove schemas by their ids. The current schema cannot be removed."""
    return {"action": "remove-schemas", "schema-ids": list(schema_ids)}


def add_encryption_key(encryption_key: types.EncryptedKey) -> types.AddEncryptionKey:
    """Add an encryption key of a table. Its `encrypted-key-metadata` is Base64."""
    return {"action": "add-encryption-key", "encryption-key": encryption_key}


def remove_encryption_key(key_id: str) -> types.RemoveEncryptionKey:
    """Remove an encryption key of a table by its `key-id`."""
    return {"action": "remove-encryption-key", "key-id": key_id}


def add_view_version(view_version: types.ViewVersion) -> types.AddViewVersion:
    """Add a version of a view. Make it the current one with set_current_view_version."""
    return {"action": "add-view-version", "view-version": view_version}


def set_current_view_version(view_version_id: int = LAST_ADDED) -> types.SetCurrentViewVersion:
    """Make a version of a view the current one. Without an id, it is the version added last in the same commit."""
    return {"action": "set-current-view-version", "view-version-id": view_version_id}


def combine(*changes: types.TableUpdate) -> list[types.TableUpdate]:
    """Return updates as a list whose type needs no annotation."""
    return list(changes)


def from_staged(metadata: types.TableMetadata) -> list[types.TableUpdate]:
    """Return the updates that create a table from the metadata of a staged create. Commit with `assert_create`."""
    changes: list[types.TableUpdate] = [
        assign_uuid(metadata["table-uuid"]),
        upgrade_format_version(metadata["format-version"]),
    ]
    for schema in metadata.get("schemas") or ():
        if schema.get("schema-id") == metadata.get("current-schema-id"):
            changes += [add_schema(schema, last_column_id=metadata.get("last-column-id")), set_current_schema()]
    for spec in metadata.get("partition-specs") or ():
        if spec.get("spec-id") == metadata.get("default-spec-id"):
            changes += [add_spec(spec), set_default_spec()]
    for order in metadata.get("sort-orders") or ():
        if order["order-id"] == metadata.get("default-sort-order-id"):
            changes += [add_sort_order(order), set_default_sort_order()]
    if "location" in metadata:
        changes.append(set_location(metadata["location"]))
    properties = metadata.get("properties")
    if properties:
        changes.append(set_properties(properties))
    return changes


def _highest_id(type: Any) -> int:
    """Return the highest field id in a type. It is 0 for a primitive type."""
    if not isinstance(type, dict):
        return 0
    fields = type.get("fields", ())
    ids = [field["id"] for field in fields] + [type.get(key, 0) for key in ("element-id", "key-id", "value-id")]
    inner = [field["type"] for field in fields] + [type.get(key) for key in ("element", "key", "value")]
    highest: int = max([*ids, *map(_highest_id, inner)])
    return highest


_guards.guard_public_functions(globals())
