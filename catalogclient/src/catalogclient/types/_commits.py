"""Updates and requirements of commits."""

from __future__ import annotations

from typing import Literal, Required, TypeAlias, TypedDict

from catalogclient.types._schemas import PartitionSpec, Schema, SortOrder
from catalogclient.types._tables import EncryptedKey, PartitionStatisticsFile, Snapshot, StatisticsFile
from catalogclient.types._views import ViewVersion


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
