"""Builders for the requirements of commits, and the derivation of requirements from updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catalogclient import _guards, _metadata, types
from catalogclient.errors import InvalidArgumentError


def assert_create() -> types.AssertCreate:
    """Require that the table does not exist."""
    return {"type": "assert-create"}


def assert_table_uuid(uuid: str) -> types.AssertTableUuid:
    """Require that the table has this UUID."""
    return {"type": "assert-table-uuid", "uuid": uuid}


def assert_ref_snapshot_id(ref: str, snapshot_id: int | None) -> types.AssertRefSnapshotId:
    """Require that a branch or tag points to this snapshot, or does not exist if `snapshot_id` is None."""
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": snapshot_id}


def assert_last_assigned_field_id(field_id: int) -> types.AssertLastAssignedFieldId:
    """Require that no column was added after this field id."""
    return {"type": "assert-last-assigned-field-id", "last-assigned-field-id": field_id}


def assert_current_schema_id(schema_id: int) -> types.AssertCurrentSchemaId:
    """Require that this schema is the current schema."""
    return {"type": "assert-current-schema-id", "current-schema-id": schema_id}


def assert_last_assigned_partition_id(partition_id: int) -> types.AssertLastAssignedPartitionId:
    """Require that no partition field was added after this id."""
    return {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": partition_id}


def assert_default_spec_id(spec_id: int) -> types.AssertDefaultSpecId:
    """Require that this partition spec is the default."""
    return {"type": "assert-default-spec-id", "default-spec-id": spec_id}


def assert_default_sort_order_id(sort_order_id: int) -> types.AssertDefaultSortOrderId:
    """Require that this sort order is the default."""
    return {"type": "assert-default-sort-order-id", "default-sort-order-id": sort_order_id}


def assert_view_uuid(uuid: str) -> types.AssertViewUuid:
    """Require that the view has this UUID."""
    return {"type": "assert-view-uuid", "uuid": uuid}


def combine(*conditions: types.TableRequirement) -> list[types.TableRequirement]:
    """Return requirements as a list whose type needs no annotation."""
    return list(conditions)


def for_create() -> list[types.TableRequirement]:
    """Return the requirements of a commit that creates a staged table."""
    return [assert_create()]


def for_replace_view(metadata: types.ViewMetadata) -> list[types.ViewRequirement]:
    """Return the requirements of a commit on a view that was loaded as `metadata`."""
    return [assert_view_uuid(metadata["view-uuid"])]


def for_update(
    metadata: types.TableMetadata, updates: Iterable[types.TableUpdate], *, replace: bool = False
) -> list[types.TableRequirement]:
    """Derive the requirements for `updates` that are based on `metadata`, each requirement once.

    `replace=True` is for replacing a whole table: concurrent changes of its schema, specs and references are ignored.
    Raises InvalidArgumentError if the metadata lacks a key that an update needs.
    """
    base: Mapping[str, Any] = {**metadata}
    conditions: list[types.TableRequirement] = [assert_table_uuid(metadata["table-uuid"])]

    def add(requirement: types.TableRequirement) -> None:
        if requirement not in conditions:
            conditions.append(requirement)

    def add_branches() -> None:
        # A schema or spec must not be removed if a branch has started to use it.
        for name, ref in (metadata.get("refs") or {}).items():
            if ref["type"] == "branch" and name != "main":
                add(assert_ref_snapshot_id(name, ref["snapshot-id"]))

    try:
        for update in updates:
            match update["action"]:
                case "set-snapshot-ref" if not replace:
                    name = update["ref-name"]
                    ref = _metadata.ref(metadata, name)
                    add(assert_ref_snapshot_id(name, ref["snapshot-id"] if ref else None))
                case "add-schema":
                    add(assert_last_assigned_field_id(base["last-column-id"]))
                case "set-current-schema" if not replace:
                    add(assert_current_schema_id(base["current-schema-id"]))
                case "remove-schemas" if not replace:
                    add(assert_current_schema_id(base["current-schema-id"]))
                    add_branches()
                case "add-spec":
                    add(assert_last_assigned_partition_id(base["last-partition-id"]))
                case "set-default-spec" if not replace:
                    add(assert_default_spec_id(base["default-spec-id"]))
                case "remove-partition-specs" if not replace:
                    add(assert_default_spec_id(base["default-spec-id"]))
                    add_branches()
                case "set-default-sort-order" if not replace:
                    add(assert_default_sort_order_id(base["default-sort-order-id"]))
    except KeyError as missing:
        raise InvalidArgumentError(f"the metadata has no key {missing}") from None
    return conditions


_guards.guard_public_functions(globals())
