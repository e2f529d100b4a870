"""Checks if a commit with an unknown outcome was applied."""

from __future__ import annotations

from catalogclient import _metadata
from catalogclient._results import CommitTableResult, LoadTableResult
from catalogclient.types import CommitTableRequest


def only_snapshot(request: CommitTableRequest) -> int | None:
    """Returns the id of the snapshot if the commit only adds one snapshot, optionally as `main`. Else returns None."""
    updates = list(request.get("updates") or ())
    added = [each["snapshot"]["snapshot-id"] for each in updates if each["action"] == "add-snapshot"]
    if len(added) != 1:
        return None
    for each in updates:
        if each["action"] == "add-snapshot":
            continue
        if each["action"] != "set-snapshot-ref" or each["ref-name"] != "main" or each["snapshot-id"] != added[0]:
            return None
    return added[0]


def found(result: LoadTableResult, snapshot_id: int) -> CommitTableResult | None:
    """Returns the loaded table as a commit result if it contains the snapshot, else None."""
    if result.metadata_location is None or _metadata.snapshot_by_id(result.metadata, snapshot_id) is None:
        return None
    return CommitTableResult(
        raw={"metadata-location": result.metadata_location, "metadata": result.metadata},
        metadata=result.metadata,
        metadata_location=result.metadata_location,
        etag=result.etag,
    )
