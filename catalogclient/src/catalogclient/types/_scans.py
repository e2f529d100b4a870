"""Files and filters of scans, and metrics reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Required, TypeAlias, TypedDict

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
