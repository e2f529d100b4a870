"""Commits and transactions (OpenAPI, `updateTable` and `commitTransaction`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from catalogclient import _metadata, types
from catalogclient._endpoints import Endpoint
from catalogclient._guards import convert_errors
from catalogclient._identifiers import TableLike
from catalogclient._operations import parsing
from catalogclient._operations.core import operation
from catalogclient._operations.request_parts import object_path, with_plain_identifier
from catalogclient._operations.tables import TableOperations
from catalogclient._options import CallOptions, MutationOptions
from catalogclient._results import CommitTableResult, LoadTableResult
from catalogclient.changes import Change, updates_for
from catalogclient.errors import CatalogError, CommitFailedError, InvalidArgumentError, InvalidResponseError
from catalogclient.requirements import for_update
from catalogclient.updates import LAST_ADDED

_INDEPENDENT_ACTIONS = ("set-properties", "remove-properties", "set-location", "upgrade-format-version")
"""Actions of updates that mean the same for any metadata of the table. Others name ids or references that a concurrent
commit may have assigned or moved, and the derived requirements cannot protect it if they are derived again."""


class CommitOperations(TableOperations):
    # Loads of these operations request no storage credentials, because their results do not contain any.

    @operation
    async def update_table(
        self,
        table: TableLike,
        request: types.CommitTableRequest | None = None,
        *,
        requirements: Sequence[types.TableRequirement] = (),
        updates: Sequence[types.TableUpdate] = (),
        **call: Unpack[MutationOptions],
    ) -> CommitTableResult:
        """Change a table if all requirements hold. Without requirements it overwrites concurrent changes.

        Raises NoSuchTableError, CommitFailedError if a requirement does not hold, and CommitStateUnknownError if the
        change may have been applied. In the last case do not resend it without its key and do not delete the files
        that it references; see reconcile_commit. The same applies to an InvalidResponseError, whose
        `is_commit_state_unknown` is true. Source: OpenAPI, `updateTable`.
        """
        if request is not None and (requirements or updates):
            raise InvalidArgumentError("pass either the request or requirements and updates")
        return await self._call(
            Endpoint.UPDATE_TABLE,
            parsing.commit,
            object_path(table),
            body=_commit(request or {"requirements": [*requirements], "updates": [*updates]}),
            **call,
        )

    commit_table = update_table

    @operation
    async def commit(
        self,
        table: TableLike,
        *changes: Change | types.TableUpdate,
        base: types.TableMetadata | None = None,
        **call: Unpack[CallOptions],
    ) -> CommitTableResult:
        """Load a table, commit changes with the derived requirements, and repeat both after a conflict if it is safe.

        `changes` are updates and the changes of `catalogclient.changes`. The latter are computed from the loaded
        metadata each time. Updates are sent as they are, so a commit is repeated only if all of its updates are
        set-properties, remove-properties, set-location or upgrade-format-version. The last writer of a property or
        location wins.

        `base` is metadata that was loaded before and replaces the first load. The requirements detect changes by
        others since that load. Pass it with updates that were built from metadata, such as add-snapshot or add-schema.
        Without it they overwrite a change that was made between the two loads.

        The number of attempts and the delays are those of `retry`. After an unknown outcome the table is loaded: the
        result is returned if the changes are in it. Nothing is committed if the table already is in the new state.

        Raises NoSuchTableError, InvalidArgumentError if a change does not apply (any more), CommitFailedError after
        the last conflict or, with a note that names the update, after one that cannot be repeated, and
        CommitStateUnknownError if the outcome remains unknown.
        """
        policy = self._options.retry
        attempt = 1
        updates = [] if base is None else updates_for(base, changes)
        while True:
            if base is None or not updates:
                loaded = await self.load_table_result(table, access_delegation=None, **call)
                base = loaded.metadata
                updates = updates_for(base, changes)
                if not updates:
                    return _as_commit_result(loaded)
            try:
                return await self.update_table(table, requirements=for_update(base, updates), updates=updates, **call)
            except CommitFailedError as conflict:
                dependent = _first_dependent_action(changes)
                if dependent is not None:
                    conflict.add_note(
                        f"not repeated: {dependent} depends on the metadata of the table; "
                        "load the table and build the update again"
                    )
                    raise
                if policy is None or attempt >= policy.max_attempts:
                    raise
                await self._runtime.sleep(policy.delay(attempt))
                attempt += 1
                base = None
            except CatalogError as unknown:
                if not unknown.is_commit_state_unknown:
                    raise
                return await self._find_result(table, updates, unknown, call)

    async def _find_result(
        self, table: TableLike, updates: Sequence[types.TableUpdate], unknown: CatalogError, call: CallOptions
    ) -> CommitTableResult:
        """Return the table if the updates are in it. Raises `unknown`, the error of the commit, otherwise."""
        try:
            current = await self.load_table_result(table, snapshots="all", access_delegation=None, **call)
            with convert_errors("the metadata is invalid", InvalidResponseError):
                is_applied = _is_applied(updates, current.metadata)
        except CatalogError as error:
            raise unknown from error
        if not is_applied:
            raise unknown
        return _as_commit_result(current)

    @operation
    async def commit_transaction(
        self, table_changes: Sequence[types.CommitTableRequest], **call: Unpack[MutationOptions]
    ) -> None:
        """Change all tables or none. Each change has the `identifier` of its table. Raises as update_table."""
        if not table_changes:
            raise InvalidArgumentError("a transaction needs at least one change")
        changes = [_commit(request) for request in table_changes]
        if not all("identifier" in change for change in changes):
            raise InvalidArgumentError("every change of a transaction needs the identifier of its table")
        await self._call(Endpoint.COMMIT_TRANSACTION, parsing.ignore_body, body={"table-changes": changes}, **call)

    @operation
    async def reconcile_commit(
        self, table: TableLike, request: types.CommitTableRequest, **call: Unpack[CallOptions]
    ) -> CommitTableResult | None:
        """Check after CommitStateUnknownError if a commit was applied. Returns the table, or None if it is uncertain.

        Only a commit that adds one snapshot, optionally as `main`, can be recognised.
        """
        snapshot_id = _only_snapshot(request)
        if snapshot_id is None:
            return None
        result = await self.load_table_result(table, snapshots="all", access_delegation=None, **call)
        if result.metadata_location is None or _metadata.snapshot_by_id(result.metadata, snapshot_id) is None:
            return None
        return _as_commit_result(result)


def _first_dependent_action(changes: Sequence[Change | types.TableUpdate]) -> str | None:
    """Return the action of the first update that must not be sent again for other metadata, or None."""
    actions = (change["action"] for change in changes if not callable(change))
    return next((action for action in actions if action not in _INDEPENDENT_ACTIONS), None)


def _as_commit_result(result: LoadTableResult) -> CommitTableResult:
    location = result.metadata_location or ""
    return CommitTableResult(
        raw={"metadata-location": location, "metadata": result.metadata},
        metadata=result.metadata,
        metadata_location=location,
        etag=result.etag,
    )


def _is_applied(updates: Sequence[types.TableUpdate], metadata: types.TableMetadata) -> bool:
    """Return True if the metadata certainly contains the effects of all updates."""
    document: Any = metadata
    schema: Any = _metadata.get_current_schema(metadata) or {}
    properties = metadata.get("properties") or {}
    last_spec = last_order = None
    for update in updates:
        match update["action"]:
            case "add-schema":
                applied = schema.get("fields") == update["schema"]["fields"]
            case "add-spec":
                last_spec = update["spec"]["fields"]
                applied = any(spec["fields"] == last_spec for spec in document["partition-specs"])
            case "add-sort-order":
                last_order = update["sort-order"]["fields"]
                applied = any(order["fields"] == last_order for order in document["sort-orders"])
            case "set-current-schema":
                # The case of add-schema compares the schema added last.
                applied = update["schema-id"] in (LAST_ADDED, metadata.get("current-schema-id"))
            case "set-default-spec":
                default_spec = _metadata.default_spec(metadata)
                applied = _is_chosen(default_spec, "spec-id", update["spec-id"], last_added=last_spec)
            case "set-default-sort-order":
                default_order = _metadata.default_sort_order(metadata)
                applied = _is_chosen(default_order, "order-id", update["sort-order-id"], last_added=last_order)
            case "upgrade-format-version":
                applied = metadata["format-version"] >= update["format-version"]
            case "set-properties":
                applied = all(properties.get(name) == value for name, value in update["updates"].items())
            case "remove-properties":
                applied = not any(name in properties for name in update["removals"])
            case "set-location":
                applied = metadata.get("location") == update["location"]
            case "add-snapshot":
                applied = _metadata.snapshot_by_id(metadata, update["snapshot"]["snapshot-id"]) is not None
            case "set-snapshot-ref":
                ref = _metadata.ref(metadata, update["ref-name"])
                applied = ref is not None and ref["snapshot-id"] == update["snapshot-id"]
            case _:
                applied = False
        if not applied:
            return False
    return True


def _is_chosen(default: Any, key: str, number: int, *, last_added: Any) -> bool:
    """Return True if `default` has this number, or for LAST_ADDED the fields of `last_added`."""
    if default is None:
        return False
    return default[key] == number or (number == LAST_ADDED and default["fields"] == last_added)


def _commit(request: types.CommitTableRequest) -> dict[str, Any]:
    document = with_plain_identifier(request)
    if "properties" in document and "updates" not in document and "requirements" not in document:
        raise InvalidArgumentError(
            "a commit has requirements and updates; for properties pass updates=[updates.set_properties({...})]"
        )
    return {"requirements": [], "updates": [], **document}


def _only_snapshot(request: types.CommitTableRequest) -> int | None:
    """Return the id of the snapshot if the commit only adds one snapshot, optionally as `main`."""
    updates = list(request.get("updates") or ())
    snapshot_ids = [update["snapshot"]["snapshot-id"] for update in updates if update["action"] == "add-snapshot"]
    if len(snapshot_ids) != 1:
        return None
    for update in updates:
        if update["action"] == "add-snapshot":
            continue
        if (
            update["action"] != "set-snapshot-ref"
            or update["ref-name"] != "main"
            or update["snapshot-id"] != snapshot_ids[0]
        ):
            return None
    return snapshot_ids[0]
