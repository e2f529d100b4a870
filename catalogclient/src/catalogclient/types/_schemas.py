"""Schemas, partition specs and sort orders."""

from __future__ import annotations

from typing import Literal, Required, TypeAlias, TypedDict

PrimitiveType: TypeAlias = str
"""`long`, `string`, `decimal(10,2)`, `fixed[16]` and others. Unknown names are passed through."""

StructField = TypedDict(
    "StructField",
    {
        "id": Required[int],
        "name": Required[str],
        "type": Required["IcebergType"],
        "required": Required[bool],
        "doc": str,
        "initial-default": bool | int | float | str,
        "write-default": bool | int | float | str,
    },
    total=False,
)


class StructType(TypedDict):
    """A nested struct."""

    type: Literal["struct"]
    fields: list[StructField]


ListType = TypedDict(
    "ListType", {"type": Literal["list"], "element-id": int, "element": "IcebergType", "element-required": bool}
)

MapType = TypedDict(
    "MapType",
    {
        "type": Literal["map"],
        "key-id": int,
        "key": "IcebergType",
        "value-id": int,
        "value": "IcebergType",
        "value-required": bool,
    },
)

IcebergType: TypeAlias = PrimitiveType | StructType | ListType | MapType

Schema = TypedDict(
    "Schema",
    {
        "type": Required[Literal["struct"]],
        "fields": Required[list[StructField]],
        "schema-id": int,
        "identifier-field-ids": list[int],
    },
    total=False,
)

PartitionField = TypedDict(
    "PartitionField",
    {"source-id": Required[int], "transform": Required[str], "name": Required[str], "field-id": int},
    total=False,
)

PartitionSpec = TypedDict("PartitionSpec", {"fields": Required[list[PartitionField]], "spec-id": int}, total=False)

SortField = TypedDict(
    "SortField",
    {
        "source-id": int,
        "transform": str,
        "direction": Literal["asc", "desc"],
        "null-order": Literal["nulls-first", "nulls-last"],
    },
)

SortOrder = TypedDict("SortOrder", {"order-id": int, "fields": list[SortField]})
