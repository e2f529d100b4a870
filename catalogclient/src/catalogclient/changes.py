"""Changes of a table by column names, for `RestCatalog.commit`.

A column is a name, or a path such as `address.zip`, `tags.element` and `prices.value`. Write a path with dots inside
names as a tuple. The functions return a Change, which computes updates from the metadata of a table. A Change raises
InvalidArgumentError if the metadata does not allow it (Iceberg specification, "Schema Evolution").
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from catalogclient import _columns, _metadata, types, updates
from catalogclient._guards import convert_errors
from catalogclient.errors import InvalidArgumentError

Column: TypeAlias = str | Sequence[str]
_FIRST_PARTITION_ID = 1000


@dataclass(slots=True)
class Draft:
    """Schema, partition spec and sort order of a table while changes are applied to them."""

    metadata: types.TableMetadata
    fields: list[Any]
    identifier_ids: set[int]
    last_column_id: int
    spec: list[types.PartitionField]
    last_partition_id: int
    order: list[types.SortField]
    others: list[types.TableUpdate] = field(default_factory=list)
    """Updates that are sent as they are: upgrades of the format version first, the others last."""

    @classmethod
    def of(cls, metadata: types.TableMetadata) -> Draft:
        """Create a draft of the current state. Raises InvalidArgumentError if the metadata has no current schema."""
        schema = _metadata.get_current_schema(metadata)
        if schema is None or "last-column-id" not in metadata:
            raise InvalidArgumentError("the metadata has no current schema or no last-column-id")
        spec, order = _metadata.default_spec(metadata), _metadata.default_sort_order(metadata)
        return cls(
            metadata=metadata,
            fields=copy.deepcopy(schema["fields"]),
            identifier_ids=set(schema.get("identifier-field-ids") or ()),
            last_column_id=metadata["last-column-id"],
            spec=copy.deepcopy(spec["fields"]) if spec else [],
            last_partition_id=metadata.get("last-partition-id", _FIRST_PARTITION_ID - 1),
            order=copy.deepcopy(order["fields"]) if order else [],
        )

    def new_id(self) -> int:
        """Assign the next column id."""
        self.last_column_id += 1
        return self.last_column_id

    def updates(self) -> list[types.TableUpdate]:
        """Return the updates of all changes. Empty if the table already is in the new state."""
        before = Draft.of(self.metadata)
        changes: list[types.TableUpdate] = []
        if self.fields != before.fields:
            schema_id = 1 + max(known.get("schema-id", 0) for known in self.metadata.get("schemas") or ())
            schema: Any = {"type": "struct", "schema-id": schema_id, "fields": self.fields}
            if self.identifier_ids:
                schema["identifier-field-ids"] = sorted(self.identifier_ids)
            changes += [updates.add_schema(schema, last_column_id=self.last_column_id), updates.set_current_schema()]
        if self.spec != before.spec:
            changes += self._new_spec()
        if self.order != before.order:
            changes += self._new_order()
        # The new schema may have types of the new format version.
        upgrades = [update for update in self.others if update["action"] == "upgrade-format-version"]
        return upgrades + changes + [update for update in self.others if update not in upgrades]

    def _new_spec(self) -> list[types.TableUpdate]:
        specs: list[Any] = [*(self.metadata.get("partition-specs") or ())]
        known = next((spec for spec in specs if spec["fields"] == self.spec), None)
        if known is not None:
            return [updates.set_default_spec(known["spec-id"])]
        spec: types.PartitionSpec = {"spec-id": 1 + max(spec["spec-id"] for spec in specs), "fields": self.spec}
        return [updates.add_spec(spec), updates.set_default_spec()]

    def _new_order(self) -> list[types.TableUpdate]:
        orders = self.metadata.get("sort-orders") or []
        known = next((order for order in orders if order["fields"] == self.order), None)
        if known is not None:
            return [updates.set_default_sort_order(known["order-id"])]
        # Order 0 is reserved for unsorted tables.
        number = 1 + max((order["order-id"] for order in orders), default=0) if self.order else 0
        order: types.SortOrder = {"order-id": number, "fields": self.order}
        return [updates.add_sort_order(order), updates.set_default_sort_order()]


Change: TypeAlias = Callable[[Draft], None]
"""A change of a table, created by the functions of this module."""


def updates_for(
    metadata: types.TableMetadata, changes: Iterable[Change | types.TableUpdate]
) -> list[types.TableUpdate]:
    """Return the updates for changes and plain updates that are based on `metadata`.

    Raises InvalidArgumentError if a change does not apply.
    """
    with convert_errors("the change cannot be applied to the metadata"):
        parts = list(changes)
        if not any(callable(part) for part in parts):
            return [cast(types.TableUpdate, part) for part in parts]
        draft = Draft.of(metadata)
        for change in parts:
            if callable(change):
                change(draft)
            else:
                draft.others.append(change)
        return draft.updates()


def add_column(column: Column, type: types.IcebergType, *, doc: str | None = None) -> Change:
    """Add an optional column at the end of the table or of a struct. Ids are assigned, also in nested types."""

    def change(draft: Draft) -> None:
        *parent, name = _columns.split(column)
        siblings = _children(draft, parent)
        if any(sibling["name"] == name for sibling in siblings):
            raise InvalidArgumentError(f"the column {_columns.join(column)} exists")
        new_field = {"id": draft.new_id(), "name": name, "required": False, "type": _with_new_ids(type, draft)}
        siblings.append({**new_field, "doc": doc} if doc is not None else new_field)

    return change


def rename_column(column: Column, name: str) -> Change:
    """Rename a column. `name` is the new last part of its path."""

    def change(draft: Draft) -> None:
        *parent, _ = _columns.split(column)
        siblings = _children(draft, parent)
        target = _field(draft, column)
        if any(sibling["name"] == name for sibling in siblings if sibling is not target):
            raise InvalidArgumentError(f"a column {name} exists beside {_columns.join(column)}")
        _columns.split((name,))
        target["name"] = name

    return change


def widen_type(column: Column, type: str) -> Change:
    """Change int to long, float to double, or a decimal to a higher precision with the same scale."""

    def change(draft: Draft) -> None:
        holder, key = _holder(draft, column)
        if key == "key" or _is_in_map_key(draft, column):
            raise InvalidArgumentError("the type of a map key cannot be changed")
        if not _columns.can_widen(holder[key], type):
            raise InvalidArgumentError(
                f"the type of {_columns.join(column)} cannot be changed from {holder[key]} to {type}"
            )
        holder[key] = type

    return change


def make_optional(column: Column) -> Change:
    """Allow null values in a required column."""

    def change(draft: Draft) -> None:
        holder, key = _holder(draft, column)
        if key == "key" or _is_in_map_key(draft, column):
            raise InvalidArgumentError("a map key cannot be optional")
        if key == "type" and holder["id"] in draft.identifier_ids:
            raise InvalidArgumentError(f"{_columns.join(column)} is an identifier field and cannot be optional")
        holder["required" if key == "type" else f"{key}-required"] = False

    return change


def drop_column(column: Column) -> Change:
    """Drop a column. Identifier fields and sources of the partition spec or sort order cannot be dropped."""

    def change(draft: Draft) -> None:
        *parent, _ = _columns.split(column)
        siblings = _children(draft, parent)
        target = _field(draft, column)
        ids = {child["id"] for child in _columns.all_fields([target])}
        sources = {partition["source-id"] for partition in draft.spec if partition["transform"] != "void"}
        for users, reason in (
            (draft.identifier_ids, "an identifier field"),
            (sources, "a source of the partition spec"),
            ({sort_field["source-id"] for sort_field in draft.order}, "a source of the sort order"),
        ):
            if ids & users:
                raise InvalidArgumentError(f"{_columns.join(column)} is {reason} and cannot be dropped")
        siblings.remove(target)

    return change


def add_partition_field(column: Column, transform: str = "identity", *, name: str | None = None) -> Change:
    """Add a partition field. `transform` is identity, year, month, day, hour, bucket[N] or truncate[W]."""

    def change(draft: Draft) -> None:
        source = _field(draft, column)
        suffix = _columns.transform_suffix(transform, source["type"])
        chosen = name or "_".join([*_columns.split(column), *([suffix] if suffix else [])])
        if any(
            partition["source-id"] == source["id"] and partition["transform"] == transform for partition in draft.spec
        ):
            raise InvalidArgumentError(f"{_columns.join(column)} is partitioned by {transform} already")
        is_own_name = transform == "identity" and chosen == source["name"]
        names = {partition["name"] for partition in draft.spec} | (
            set() if is_own_name else {field["name"] for field in draft.fields}
        )
        if chosen in names:
            raise InvalidArgumentError(f"the name {chosen} is used by a column or partition field")
        draft.spec.append(
            {
                "source-id": source["id"],
                "field-id": _partition_id(draft, source["id"], transform),
                "name": chosen,
                "transform": transform,
            }
        )

    return change


def drop_partition_field(name: str) -> Change:
    """Drop a partition field by its name. In format version 1 its transform becomes void."""

    def change(draft: Draft) -> None:
        partition = next(
            (partition for partition in draft.spec if partition["name"] == name and partition["transform"] != "void"),
            None,
        )
        if partition is None:
            raise InvalidArgumentError(f"the partition spec has no field {name}")
        if draft.metadata["format-version"] == 1:
            partition["transform"] = "void"
        else:
            draft.spec.remove(partition)

    return change


def sort_by(
    column: Column,
    direction: Literal["asc", "desc"] = "asc",
    *,
    transform: str = "identity",
    null_order: Literal["nulls-first", "nulls-last"] | None = None,
) -> Change:
    """Add a field to the end of the sort order. Nulls are first if ascending and last if descending by default."""

    def change(draft: Draft) -> None:
        if direction not in ("asc", "desc") or null_order not in (None, "nulls-first", "nulls-last"):
            raise InvalidArgumentError("direction must be asc or desc, null_order nulls-first or nulls-last")
        source = _field(draft, column)
        _columns.transform_suffix(transform, source["type"])
        if any(
            sort_field["source-id"] == source["id"] and sort_field["transform"] == transform
            for sort_field in draft.order
        ):
            raise InvalidArgumentError(f"the table is sorted by {_columns.join(column)} already")
        default: Literal["nulls-first", "nulls-last"] = "nulls-first" if direction == "asc" else "nulls-last"
        draft.order.append(
            {
                "source-id": source["id"],
                "transform": transform,
                "direction": direction,
                "null-order": null_order or default,
            }
        )

    return change


def unsorted() -> Change:
    """Remove all fields of the sort order. Changes with sort_by after it build a new order."""

    def change(draft: Draft) -> None:
        draft.order.clear()

    return change


def _holder(draft: Draft, column: Column) -> tuple[dict[str, Any], str]:
    return _columns.find(draft.fields, _columns.split(column))


def _field(draft: Draft, column: Column) -> dict[str, Any]:
    """Return a field of the table or of a struct. Raises InvalidArgumentError for other paths."""
    holder, key = _holder(draft, column)
    if key != "type":
        raise InvalidArgumentError(f"{_columns.join(column)} is a list element, map key or map value")
    return holder


def _children(draft: Draft, parent: Sequence[str]) -> list[Any]:
    if not parent:
        return draft.fields
    holder, key = _columns.find(draft.fields, parent)
    if key == "key" or _is_in_map_key(draft, parent):
        raise InvalidArgumentError("the struct of a map key cannot be changed")
    inner = holder[key]
    if not isinstance(inner, dict) or inner.get("type") != "struct":
        raise InvalidArgumentError(f"{'.'.join(parent)} is not a struct")
    children: list[Any] = inner["fields"]
    return children


def _is_in_map_key(draft: Draft, column: Column) -> bool:
    path = _columns.split(column)
    return any(_columns.find(draft.fields, path[:length])[1] == "key" for length in range(2, len(path) + 1))


def _with_new_ids(type: Any, draft: Draft) -> Any:
    if not isinstance(type, dict):
        return type
    result = dict(type)
    if type["type"] == "struct":
        numbered = [{**child, "id": draft.new_id()} for child in type["fields"]]
        result["fields"] = [{**child, "type": _with_new_ids(child["type"], draft)} for child in numbered]
    for key in _columns.NESTED_KEYS.get(type["type"], ()):
        result[f"{key}-id"] = draft.new_id()
    for key in _columns.NESTED_KEYS.get(type["type"], ()):
        result[key] = _with_new_ids(type[key], draft)
    return result


def _partition_id(draft: Draft, source_id: int, transform: str) -> int:
    """Return the id of an equal field of any spec, as format version 2 requires, or a new id."""
    for spec in draft.metadata.get("partition-specs") or ():
        for partition in spec["fields"]:
            if (partition["source-id"], partition["transform"]) == (source_id, transform) and "field-id" in partition:
                return partition["field-id"]
    draft.last_partition_id += 1
    return draft.last_partition_id
