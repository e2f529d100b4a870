"""Commits and transactions (OpenAPI, `updateTable` and `commitTransaction`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from catalogclient import _metadata
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import TableLike
from catalogclient._messages import Call, encode_json
from catalogclient._operations import requests, responses
from catalogclient._operations.core import operation
from catalogclient._operations.tables import TableOperations
from catalogclient._options import CallOptions, MutationOptions
from catalogclient._results import CommitTableResult
from catalogclient.errors import InvalidArgumentError
from catalogclient.types import CommitTableRequest, TableRequirement, TableUpdate


class CommitOperations(TableOperations):
    """Commits."""

    @operation
    async def update_table(
        self,
        table: TableLike,
        request: CommitTableRequest | None = None,
        *,
        requirements: Sequence[TableRequirement] = (),
        updates: Sequence[TableUpdate] = (),
        **call: Unpack[MutationOptions],
    ) -> CommitTableResult:
        """Changes a table if all requirements hold. Without requirements it overwrites concurrent changes.

        Raises NoSuchTableError, CommitFailedError if a requirement does not hold, and CommitStateUnknownError if the
        change may have been applied. In the last case do not resend it without its key and do not delete the files
        that it references; see reconcile_commit. Source: OpenAPI, `updateTable`.
        """
        if request is not None and (requirements or updates):
            raise InvalidArgumentError("pass either the request or requirements and updates")
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.UPDATE_TABLE],
                values=requests.object_path(table),
                body=encode_json(_commit(request or {"requirements": [*requirements], "updates": [*updates]})),
                read=responses.commit,
            ),
            **call,
        )

    commit_table = update_table

    @operation
    async def commit_transaction(
        self, table_changes: Sequence[CommitTableRequest], **call: Unpack[MutationOptions]
    ) -> None:
        """Changes all tables or none. Each change has the `identifier` of its table. Raises as update_table."""
        if not table_changes:
            raise InvalidArgumentError("a transaction needs at least one change")
        changes = [_commit(each) for each in table_changes]
        if not all("identifier" in each for each in changes):
            raise InvalidArgumentError("every change of a transaction needs the identifier of its table")
        wanted = Call(
            operation=OPERATIONS[Endpoint.COMMIT_TRANSACTION],
            body=encode_json({"table-changes": changes}),
            read=responses.nothing,
        )
        await self._send(wanted, **call)

    @operation
    async def reconcile_commit(
        self, table: TableLike, request: CommitTableRequest, **call: Unpack[CallOptions]
    ) -> CommitTableResult | None:
        """Checks after CommitStateUnknownError if a commit was applied. Returns the table, or None if it is uncertain.

        Only a commit that adds one snapshot, optionally as `main`, can be recognised.
        """
        snapshot_id = _only_snapshot(request)
        if snapshot_id is None:
            return None
        result = await self.load_table_result(table, snapshots="all", **call)
        if result.metadata_location is None or _metadata.snapshot_by_id(result.metadata, snapshot_id) is None:
            return None
        return CommitTableResult(
            raw={"metadata-location": result.metadata_location, "metadata": result.metadata},
            metadata=result.metadata,
            metadata_location=result.metadata_location,
            etag=result.etag,
        )


def _commit(request: CommitTableRequest) -> dict[str, Any]:
    document = requests.with_plain_identifier(request)
    if "properties" in document and "updates" not in document and "requirements" not in document:
        raise InvalidArgumentError(
            "a commit has requirements and updates; for properties pass updates=[updates.set_properties({...})]"
        )
    return {"requirements": [], "updates": [], **document}


def _only_snapshot(request: CommitTableRequest) -> int | None:
    """Returns the id of the snapshot if the commit only adds one snapshot, optionally as `main`."""
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
