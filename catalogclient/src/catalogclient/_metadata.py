"""Helpers that read table metadata."""

from __future__ import annotations

from catalogclient import _guards, types


def get_current_schema(metadata: types.TableMetadata) -> types.Schema | None:
    """Return the schema whose `schema-id` equals `current-schema-id`, or None."""
    schema_id = metadata.get("current-schema-id")
    return next((each for each in metadata.get("schemas") or () if each.get("schema-id") == schema_id), None)


def current_snapshot_id(metadata: types.TableMetadata) -> int | None:
    """Return the id of the current snapshot. Returns None for -1, null and a missing key: the table has none."""
    found = metadata.get("current-snapshot-id")
    return None if found == -1 else found


def current_snapshot(metadata: types.TableMetadata) -> types.Snapshot | None:
    """Return the current snapshot, or None if the metadata does not contain it."""
    found = current_snapshot_id(metadata)
    return None if found is None else snapshot_by_id(metadata, found)


def snapshot_by_id(metadata: types.TableMetadata, snapshot_id: int) -> types.Snapshot | None:
    """Return the snapshot with this id, or None."""
    return next((each for each in metadata.get("snapshots") or () if each["snapshot-id"] == snapshot_id), None)


def ref(metadata: types.TableMetadata, name: str) -> types.SnapshotReference | None:
    """Return a branch or tag by name, or None."""
    return (metadata.get("refs") or {}).get(name)


_guards.guard_public_functions(globals())
