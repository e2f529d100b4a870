"""Request and response documents as TypedDicts with the keys of the OpenAPI document (`components/schemas`).

The documents are plain dictionaries at run time. Unknown keys are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

from catalogclient._identifiers import TableIdentifier

# Schemas, partition specs and sort orders

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

IcebergType: TypeAlias = "PrimitiveType | StructType | ListType | MapType"

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

# Table metadata

Snapshot = TypedDict(
    "Snapshot",
    {
        "snapshot-id": Required[int],
        "timestamp-ms": Required[int],
        "manifest-list": Required[str],
        "summary": Required[dict[str, str]],
        "parent-snapshot-id": int,
        "sequence-number": int,
        "first-row-id": int,
        "added-rows": int,
        "schema-id": int,
    },
    total=False,
)

SnapshotReference = TypedDict(
    "SnapshotReference",
    {
        "type": Required[Literal["tag", "branch"]],
        "snapshot-id": Required[int],
        "max-ref-age-ms": int,
        "max-snapshot-age-ms": int,
        "min-snapshots-to-keep": int,
    },
    total=False,
)

BlobMetadata = TypedDict(
    "BlobMetadata",
    {"type": str, "snapshot-id": int, "sequence-number": int, "fields": list[int], "properties": dict[str, str]},
)

StatisticsFile = TypedDict(
    "StatisticsFile",
    {
        "snapshot-id": int,
        "statistics-path": str,
        "file-size-in-bytes": int,
        "file-footer-size-in-bytes": int,
        "blob-metadata": list[BlobMetadata],
    },
)

PartitionStatisticsFile = TypedDict(
    "PartitionStatisticsFile", {"snapshot-id": int, "statistics-path": str, "file-size-in-bytes": int}
)

EncryptedKey = TypedDict(
    "EncryptedKey",
    {
        "key-id": Required[str],
        "encrypted-key-metadata": Required[str],
        "encrypted-by-id": str,
        "properties": dict[str, str],
    },
    total=False,
)

SnapshotLogEntry = TypedDict("SnapshotLogEntry", {"snapshot-id": int, "timestamp-ms": int})
MetadataLogEntry = TypedDict("MetadataLogEntry", {"metadata-file": str, "timestamp-ms": int})

TableMetadata = TypedDict(
    "TableMetadata",
    {
        "format-version": Required[int],
        "table-uuid": Required[str],
        "location": str,
        "last-updated-ms": int,
        "next-row-id": int,
        "properties": dict[str, str],
        "schemas": list[Schema],
        "current-schema-id": int,
        "last-column-id": int,
        "partition-specs": list[PartitionSpec],
        "default-spec-id": int,
        "last-partition-id": int,
        "sort-orders": list[SortOrder],
        "default-sort-order-id": int,
        "encryption-keys": list[EncryptedKey],
        "snapshots": list[Snapshot],
        "refs": dict[str, SnapshotReference],
        "current-snapshot-id": int | None,
        "last-sequence-number": int,
        "snapshot-log": list[SnapshotLogEntry],
        "metadata-log": list[MetadataLogEntry],
        "statistics": list[StatisticsFile],
        "partition-statistics": list[PartitionStatisticsFile],
        # Keys of format version 1 and of single servers.
        "schema": Schema,
        "partition-spec": list[PartitionField],
        "name": str,
        "metadata-location": str,
    },
    total=False,
)

# Views and functions


class ViewRepresentation(TypedDict):
    """The query of a view in one SQL dialect."""

    type: Literal["sql"]
    sql: str
    dialect: str


ViewVersion = TypedDict(
    "ViewVersion",
    {
        "version-id": Required[int],
        "timestamp-ms": Required[int],
        "schema-id": Required[int],
        "summary": Required[dict[str, str]],
        "representations": Required[list[ViewRepresentation]],
        "default-namespace": Required[list[str]],
        "default-catalog": str,
    },
    total=False,
)

ViewLogEntry = TypedDict("ViewLogEntry", {"version-id": int, "timestamp-ms": int})

ViewMetadata = TypedDict(
    "ViewMetadata",
    {
        "view-uuid": Required[str],
        "format-version": Required[int],
        "location": Required[str],
        "current-version-id": Required[int],
        "versions": Required[list[ViewVersion]],
        "version-log": Required[list[ViewLogEntry]],
        "schemas": Required[list[Schema]],
        "properties": dict[str, str],
    },
    total=False,
)


class FunctionRepresentation(TypedDict):
    """The body of a function in one SQL dialect."""

    type: Literal["sql"]
    dialect: str
    sql: str


class FunctionParameter(TypedDict):
    """A parameter of a function."""

    type: IcebergType
    name: str
    doc: NotRequired[str]


FunctionDefinitionVersion = TypedDict(
    "FunctionDefinitionVersion",
    {
        "version-id": Required[int],
        "representations": Required[list[FunctionRepresentation]],
        "timestamp-ms": Required[int],
        "deterministic": bool,
        "on-null-input": Literal["return-null", "call"],
    },
    total=False,
)

FunctionDefinition = TypedDict(
    "FunctionDefinition",
    {
        "definition-id": Required[str],
        "parameters": Required[list[FunctionParameter]],
        "return-type": Required[IcebergType],
        "versions": Required[list[FunctionDefinitionVersion]],
        "current-version-id": Required[int],
        "function-type": Required[Literal["udf", "udtf"]],
        "specific-name": str,
        "return-nullable": bool,
        "doc": str,
    },
    total=False,
)

DefinitionVersionReference = TypedDict("DefinitionVersionReference", {"definition-id": str, "version-id": int})
DefinitionLogEntry = TypedDict(
    "DefinitionLogEntry", {"timestamp-ms": int, "definition-versions": list[DefinitionVersionReference]}
)

FunctionMetadata = TypedDict(
    "FunctionMetadata",
    {
        "function-uuid": Required[str],
        "format-version": Required[int],
        "definitions": Required[list[FunctionDefinition]],
        "definition-log": Required[list[DefinitionLogEntry]],
        "location": str,
        "properties": dict[str, str],
        "secure": bool,
        "doc": str,
    },
    total=False,
)

# Updates and requirements


class AssignUuid(TypedDict):
    action: Literal["assign-uuid"]
    uuid: str


UpgradeFormatVersion = TypedDict(
    "UpgradeFormatVersion", {"action": Literal["upgrade-format-version"], "format-version": int}
)
AddSchema = TypedDict(
    "AddSchema",
    {"action": Required[Literal["add-schema"]], "schema": Required[Schema], "last-column-id": int},
    total=False,
)
SetCurrentSchema = TypedDict("SetCurrentSchema", {"action": Literal["set-current-schema"], "schema-id": int})


class AddSpec(TypedDict):
    action: Literal["add-spec"]
    spec: PartitionSpec


SetDefaultSpec = TypedDict("SetDefaultSpec", {"action": Literal["set-default-spec"], "spec-id": int})
AddSortOrder = TypedDict("AddSortOrder", {"action": Literal["add-sort-order"], "sort-order": SortOrder})
SetDefaultSortOrder = TypedDict(
    "SetDefaultSortOrder", {"action": Literal["set-default-sort-order"], "sort-order-id": int}
)


class AddSnapshot(TypedDict):
    action: Literal["add-snapshot"]
    snapshot: Snapshot


SetSnapshotRef = TypedDict(
    "SetSnapshotRef",
    {
        "action": Required[Literal["set-snapshot-ref"]],
        "ref-name": Required[str],
        "type": Required[Literal["tag", "branch"]],
        "snapshot-id": Required[int],
        "max-ref-age-ms": int,
        "max-snapshot-age-ms": int,
        "min-snapshots-to-keep": int,
    },
    total=False,
)
RemoveSnapshots = TypedDict("RemoveSnapshots", {"action": Literal["remove-snapshots"], "snapshot-ids": list[int]})
RemoveSnapshotRef = TypedDict("RemoveSnapshotRef", {"action": Literal["remove-snapshot-ref"], "ref-name": str})


class SetLocation(TypedDict):
    action: Literal["set-location"]
    location: str


class SetProperties(TypedDict):
    action: Literal["set-properties"]
    updates: dict[str, str]


class RemoveProperties(TypedDict):
    action: Literal["remove-properties"]
    removals: list[str]


SetStatistics = TypedDict(
    "SetStatistics",
    {"action": Required[Literal["set-statistics"]], "statistics": Required[StatisticsFile], "snapshot-id": int},
    total=False,
)
RemoveStatistics = TypedDict("RemoveStatistics", {"action": Literal["remove-statistics"], "snapshot-id": int})
SetPartitionStatistics = TypedDict(
    "SetPartitionStatistics",
    {"action": Literal["set-partition-statistics"], "partition-statistics": PartitionStatisticsFile},
)
RemovePartitionStatistics = TypedDict(
    "RemovePartitionStatistics", {"action": Literal["remove-partition-statistics"], "snapshot-id": int}
)
RemovePartitionSpecs = TypedDict(
    "RemovePartitionSpecs", {"action": Literal["remove-partition-specs"], "spec-ids": list[int]}
)
RemoveSchemas = TypedDict("RemoveSchemas", {"action": Literal["remove-schemas"], "schema-ids": list[int]})
AddEncryptionKey = TypedDict(
    "AddEncryptionKey", {"action": Literal["add-encryption-key"], "encryption-key": EncryptedKey}
)
RemoveEncryptionKey = TypedDict("RemoveEncryptionKey", {"action": Literal["remove-encryption-key"], "key-id": str})

TableUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)
"""An update of a table. The key `action` is the discriminator."""

AddViewVersion = TypedDict("AddViewVersion", {"action": Literal["add-view-version"], "view-version": ViewVersion})
SetCurrentViewVersion = TypedDict(
    "SetCurrentViewVersion", {"action": Literal["set-current-view-version"], "view-version-id": int}
)

ViewUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)
"""An update of a view. The key `action` is the discriminator."""


class AssertCreate(TypedDict):
    type: Literal["assert-create"]


class AssertTableUuid(TypedDict):
    type: Literal["assert-table-uuid"]
    uuid: str


AssertRefSnapshotId = TypedDict(
    "AssertRefSnapshotId", {"type": Literal["assert-ref-snapshot-id"], "ref": str, "snapshot-id": int | None}
)
AssertLastAssignedFieldId = TypedDict(
    "AssertLastAssignedFieldId", {"type": Literal["assert-last-assigned-field-id"], "last-assigned-field-id": int}
)
AssertCurrentSchemaId = TypedDict(
    "AssertCurrentSchemaId", {"type": Literal["assert-current-schema-id"], "current-schema-id": int}
)
AssertLastAssignedPartitionId = TypedDict(
    "AssertLastAssignedPartitionId",
    {"type": Literal["assert-last-assigned-partition-id"], "last-assigned-partition-id": int},
)
AssertDefaultSpecId = TypedDict(
    "AssertDefaultSpecId", {"type": Literal["assert-default-spec-id"], "default-spec-id": int}
)
AssertDefaultSortOrderId = TypedDict(
    "AssertDefaultSortOrderId", {"type": Literal["assert-default-sort-order-id"], "default-sort-order-id": int}
)

TableRequirement: TypeAlias = (
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)
"""A condition of a commit. The key `type` is the discriminator."""


class AssertViewUuid(TypedDict):
    type: Literal["assert-view-uuid"]
    uuid: str


ViewRequirement: TypeAlias = AssertViewUuid

# Scan planning and metrics reports

Expression: TypeAlias = bool | Mapping[str, Any]
"""A filter: `True`, `False`, or an object with `type`. `catalogclient.expressions` has builders."""


class CountMap(TypedDict):
    """Counts per field id: `values[i]` belongs to field `keys[i]`."""

    keys: list[int]
    values: list[int]


class ValueMap(TypedDict):
    """Bounds per field id: `values[i]` belongs to field `keys[i]`, in the JSON single-value form."""

    keys: list[int]
    values: list[Any]


ContentFile = TypedDict(
    "ContentFile",
    {
        "content": Required[Literal["data", "position-deletes", "equality-deletes"]],
        "file-path": Required[str],
        "file-format": Required[str],
        "spec-id": Required[int],
        "partition": Required[list[Any]],
        "file-size-in-bytes": Required[int],
        "record-count": Required[int],
        "key-metadata": str,
        "split-offsets": list[int],
        "sort-order-id": int,
    },
    total=False,
)

_DataFileFields = TypedDict(
    "_DataFileFields",
    {
        "first-row-id": int,
        "column-sizes": CountMap,
        "value-counts": CountMap,
        "null-value-counts": CountMap,
        "nan-value-counts": CountMap,
        "lower-bounds": ValueMap,
        "upper-bounds": ValueMap,
    },
    total=False,
)


class DataFile(ContentFile, _DataFileFields):
    """A data file (`content` is `data`)."""


_DeleteFileFields = TypedDict(
    "_DeleteFileFields", {"content-offset": int, "content-size-in-bytes": int, "equality-ids": list[int]}, total=False
)


class DeleteFile(ContentFile, _DeleteFileFields):
    """A file of position deletes (with offset and size for deletion vectors) or equality deletes (with field ids)."""


FileScanTask = TypedDict(
    "FileScanTask",
    {"data-file": Required[DataFile], "delete-file-references": list[int], "residual-filter": Expression},
    total=False,
)


class CounterResult(TypedDict):
    """A counter of a metrics report."""

    unit: str
    value: int


TimerResult = TypedDict("TimerResult", {"time-unit": str, "count": int, "total-duration": int})

ScanReport = TypedDict(
    "ScanReport",
    {
        "report-type": Required[Literal["scan-report"]],
        "table-name": Required[str],
        "snapshot-id": Required[int],
        "filter": Required[Expression],
        "schema-id": Required[int],
        "projected-field-ids": Required[list[int]],
        "projected-field-names": Required[list[str]],
        "metrics": Required[dict[str, CounterResult | TimerResult]],
        "metadata": dict[str, str],
    },
    total=False,
)

CommitReport = TypedDict(
    "CommitReport",
    {
        "report-type": Required[Literal["commit-report"]],
        "table-name": Required[str],
        "snapshot-id": Required[int],
        "sequence-number": Required[int],
        "operation": Required[str],
        "metrics": Required[dict[str, CounterResult | TimerResult]],
        "metadata": dict[str, str],
    },
    total=False,
)

ReportMetricsRequest: TypeAlias = ScanReport | CommitReport

# Request bodies


class TableReference(TypedDict):
    """The identifier of a table or view."""

    namespace: list[str]
    name: str


class CreateNamespaceRequest(TypedDict, total=False):
    namespace: Required[list[str]]
    properties: dict[str, str]


class UpdateNamespacePropertiesRequest(TypedDict, total=False):
    removals: list[str]
    updates: dict[str, str]


CreateTableRequest = TypedDict(
    "CreateTableRequest",
    {
        "name": Required[str],
        "schema": Required[Schema],
        "location": str,
        "partition-spec": PartitionSpec,
        "write-order": SortOrder,
        "stage-create": bool,
        "properties": dict[str, str],
    },
    total=False,
)

RegisterTableRequest = TypedDict(
    "RegisterTableRequest", {"name": Required[str], "metadata-location": Required[str], "overwrite": bool}, total=False
)


class RenameTableRequest(TypedDict):
    source: TableReference | TableIdentifier
    destination: TableReference | TableIdentifier


class CommitTableRequest(TypedDict, total=False):
    """`identifier` is required inside a transaction. Without `requirements` the commit is unconditional."""

    identifier: TableReference | TableIdentifier
    requirements: list[TableRequirement]
    updates: list[TableUpdate]


CommitTransactionRequest = TypedDict("CommitTransactionRequest", {"table-changes": list[CommitTableRequest]})

CreateViewRequest = TypedDict(
    "CreateViewRequest",
    {
        "name": Required[str],
        "schema": Required[Schema],
        "view-version": Required[ViewVersion],
        "properties": Required[dict[str, str]],
        "location": str,
    },
    total=False,
)


class CommitViewRequest(TypedDict, total=False):
    identifier: TableReference | TableIdentifier
    requirements: list[ViewRequirement]
    updates: Required[list[ViewUpdate]]


RegisterViewRequest = TypedDict("RegisterViewRequest", {"name": str, "metadata-location": str})

PlanTableScanRequest = TypedDict(
    "PlanTableScanRequest",
    {
        "snapshot-id": int,
        "select": list[str],
        "filter": Expression,
        "min-rows-requested": int,
        "case-sensitive": bool,
        "use-snapshot-schema": bool,
        "start-snapshot-id": int,
        "end-snapshot-id": int,
        "stats-fields": list[str],
    },
    total=False,
)

FetchScanTasksRequest = TypedDict("FetchScanTasksRequest", {"plan-task": str})


class RemoteSignRequest(TypedDict, total=False):
    region: Required[str]
    uri: Required[str]
    method: Required[Literal["PUT", "GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS"]]
    headers: Required[dict[str, list[str]]]
    properties: dict[str, str]
    body: str
    provider: str


class RemoteSigningConfig(TypedDict, total=False):
    """Properties and header fields that a load result requires for every signing request."""

    properties: dict[str, str]
    headers: dict[str, list[str]]
