"""Questions about table metadata."""

from __future__ import annotations

from catalogclient.types import Schema, Snapshot, SnapshotReference, TableMetadata


def get_current_schema(metadata: TableMetadata) -> Schema | None:
    """The schema whose id is `current-schema-id`."""
    wanted = metadata.get("current-schema-id")
    return next((each for each in metadata.get("schemas") or () if each.get("schema-id") == wanted), None)


def current_snapshot_id(metadata: TableMetadata) -> int | None:
    """The current snapshot; None for a table that never had one, which servers write as -1, null or nothing."""
    found = metadata.get("current-snapshot-id")
    return None if found == -1 else found


def current_snapshot(metadata: TableMetadata) -> Snapshot | None:
    """The current snapshot, if it is among those that were loaded."""
    found = current_snapshot_id(metadata)
    return None if found is None else snapshot_by_id(metadata, found)


def snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    return next((each for each in metadata.get("snapshots") or () if each["snapshot-id"] == snapshot_id), None)


def ref(metadata: TableMetadata, name: str) -> SnapshotReference | None:
    """A branch or tag."""
    return (metadata.get("refs") or {}).get(name)
