"""Bodies of requests."""

from __future__ import annotations

from typing import Literal, Required, TypedDict

from catalogclient._identifiers import TableIdentifier
from catalogclient.types._commits import TableRequirement, TableUpdate, ViewRequirement, ViewUpdate
from catalogclient.types._scans import Expression
from catalogclient.types._schemas import PartitionSpec, Schema, SortOrder
from catalogclient.types._views import ViewVersion


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
