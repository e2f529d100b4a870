"""Table metadata with snapshots, references and statistics."""

from __future__ import annotations

from typing import Literal, Required, TypedDict

from catalogclient.types._schemas import PartitionField, PartitionSpec, Schema, SortOrder

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
