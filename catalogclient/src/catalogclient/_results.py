"""What the operations return: pages, and answers that are mappings with the keys of the wire and objects at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar

from catalogclient._identifiers import NamespaceIdentifier, TableIdentifier
from catalogclient.errors import CatalogError
from catalogclient.types import (
    DeleteFile,
    FileScanTask,
    FunctionMetadata,
    RemoteSigningConfig,
    TableMetadata,
    ViewMetadata,
)

T = TypeVar("T")


class SecretDict(dict[str, str]):
    """Configuration that may hold secrets: it shows its keys only."""

    def __repr__(self) -> str:
        return f"SecretDict(keys={sorted(self)})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class NamespacePage:
    """Some namespaces, and the token that continues the list (None at its end)."""

    namespaces: list[NamespaceIdentifier]
    next_page_token: str | None = None

    def __iter__(self) -> Iterator[NamespaceIdentifier]:
        return iter(self.namespaces)

    def __len__(self) -> int:
        return len(self.namespaces)


@dataclass(frozen=True, slots=True)
class _IdentifierPage(Generic[T]):
    identifiers: list[T]
    next_page_token: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.identifiers)

    def __len__(self) -> int:
        return len(self.identifiers)


class TablePage(_IdentifierPage[TableIdentifier]):
    """Some tables, and the token that continues the list (None at its end)."""

    __slots__ = ()


class ViewPage(_IdentifierPage[TableIdentifier]):
    """Some views, and the token that continues the list (None at its end)."""

    __slots__ = ()


class FunctionPage(_IdentifierPage[tuple[str, ...]]):
    """Some functions by levels and name, and the token that continues the list (None at its end)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StorageCredential:
    """What opens the storage below `prefix`; `config` has the keys of Iceberg's file access (`s3.access-key-id` …)."""

    prefix: str
    config: SecretDict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Answer(Mapping[str, Any]):
    """`raw` is the answer with the keys of the wire; the answer is also a mapping of them."""

    raw: dict[str, Any] = field(repr=False)

    def __getitem__(self, key: str) -> Any:
        return self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


class _Tagged(_Answer):
    """An answer whose mapping also has `etag`, which comes as a header field."""

    __slots__ = ()
    etag: str | None

    def __getitem__(self, key: str) -> Any:
        return self.etag if key == "etag" else self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.raw, "etag": None})

    def __len__(self) -> int:
        return len({**self.raw, "etag": None})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadTableResult(_Tagged):
    """A table as loaded, created or registered."""

    metadata: TableMetadata = field(repr=False)
    metadata_location: str | None
    """None for a table that is staged only."""
    config: SecretDict
    storage_credentials: list[StorageCredential]
    remote_signing_config: RemoteSigningConfig | None = field(repr=False)
    etag: str | None
    """For `if_none_match` of a later load with the same arguments."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitTableResult(_Tagged):
    """A table after a commit."""

    metadata: TableMetadata = field(repr=False)
    metadata_location: str
    etag: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnregisterTableResult(_Answer):
    """A table as it was when the catalog let go of it."""

    metadata: TableMetadata = field(repr=False)
    metadata_location: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadViewResult(_Answer):
    """A view as loaded, created, replaced or registered."""

    metadata: ViewMetadata = field(repr=False)
    metadata_location: str | None
    config: SecretDict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadFunctionResult(_Answer):
    """A function as loaded."""

    metadata: FunctionMetadata = field(repr=False)
    metadata_location: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamespaceMetadata(_Answer):
    """A namespace and its properties."""

    namespace: NamespaceIdentifier
    properties: dict[str, str] = field(repr=False)
    properties_supported: bool
    """False when the server says that it keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpdateNamespacePropertiesResult(_Answer):
    """Names of the properties that were set, removed, or not there to be removed."""

    updated: list[str]
    removed: list[str]
    missing: list[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogConfig(_Answer):
    """What the server says about itself (OpenAPI, `CatalogConfig`)."""

    defaults: SecretDict
    overrides: SecretDict
    endpoints: frozenset[str] | None = field(repr=False)
    """Written as in Endpoint; None when the server lists nothing."""
    idempotency_key_lifetime: timedelta | None
    """How long a request may be repeated with its key; None when the server promises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSignResult:
    """A signed request for storage."""

    uri: str = field(repr=False)
    headers: dict[str, list[str]] = field(repr=False)
    cacheable: bool
    """Whether it may serve the same request again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanTasks(_Answer):
    """Files to read, and the names of further tasks."""

    plan_tasks: list[str] = field(repr=False)
    file_scan_tasks: list[FileScanTask] = field(repr=False)
    delete_files: list[DeleteFile] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanResult(ScanTasks):
    """The state of a plan, with its files as far as they are known."""

    status: Literal["completed", "submitted", "cancelled", "failed"]
    plan_id: str | None
    storage_credentials: list[StorageCredential]
    error: CatalogError | None
