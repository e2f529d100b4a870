"""Helpers that read table metadata."""

from __future__ import annotations

from catalogclient import _guards, types


def get_current_schema(metadata: types.TableMetadata) -> types.Schema | None:
    """Return the schema whose `schema-id` equals `current-schema-id`, or None."""
    schema_id = metadata.get("current-schema-id")
    return next((schema for schema in metadata.get("schemas") or () if schema.get("schema-id") == schema_id), None)


def default_spec(metadata: types.TableMetadata) -> types.PartitionSpec | None:
    """Return the partition spec whose `spec-id` equals `default-spec-id`, or None."""
    spec_id = metadata.get("default-spec-id")
    return next((spec for spec in metadata.get("partition-specs") or () if spec.get("spec-id") == spec_id), None)


def default_sort_order(metadata: types.TableMetadata) -> types.SortOrder | None:
    """Return the sort order whose `order-id` equals `default-sort-order-id`, or None."""
    order_id = metadata.get("default-sort-order-id")
    return next((order for order in metadata.get("sort-orders") or () if order.get("order-id") == order_id), None)


def current_snapshot_id(metadata: types.TableMetadata) -> int | None:
    """Return the id of the current snapshot. Returns None for -1, null and a missing key: the table has none."""
    snapshot_id = metadata.get("current-snapshot-id")
    return None if snapshot_id == -1 else snapshot_id


def current_snapshot(metadata: types.TableMetadata) -> types.Snapshot | None:
    """Return the current snapshot, or None if the metadata does not contain it."""
    snapshot_id = current_snapshot_id(metadata)
    return None if snapshot_id is None else snapshot_by_id(metadata, snapshot_id)


def snapshot_by_id(metadata: types.TableMetadata, snapshot_id: int) -> types.Snapshot | None:
    """Return the snapshot with this id, or None."""
    snapshots = metadata.get("snapshots") or ()
    return next((snapshot for snapshot in snapshots if snapshot["snapshot-id"] == snapshot_id), None)


def ref(metadata: types.TableMetadata, name: str) -> types.SnapshotReference | None:
    """Return a branch or tag by name, or None.

    The branch `main` always points to the current snapshot, also if the metadata lists no references (Iceberg
    specification, "Table Metadata").
    """
    known = (metadata.get("refs") or {}).get(name)
    snapshot_id = current_snapshot_id(metadata)
    if known is None and name == "main" and snapshot_id is not None:
        return {"type": "branch", "snapshot-id": snapshot_id}
    return known


_guards.guard_public_functions(globals())
