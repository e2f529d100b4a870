"""Results of the operations: pages, and read-only mappings of the response document with typed attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, overload

from catalogclient import types
from catalogclient._identifiers import NamespaceIdentifier, TableIdentifier
from catalogclient.errors import CatalogError

T = TypeVar("T")


class SecretDict(dict[str, str]):
    """Configuration that may contain secrets. `repr` shows the keys only."""

    def __repr__(self) -> str:
        return f"SecretDict(keys={sorted(self)})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class NamespacePage:
    """A page of namespaces. `next_page_token` is None on the last page."""

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
    """A page of tables. `next_page_token` is None on the last page."""

    __slots__ = ()


class ViewPage(_IdentifierPage[TableIdentifier]):
    """A page of views. `next_page_token` is None on the last page."""

    __slots__ = ()


class FunctionPage(_IdentifierPage[tuple[str, ...]]):
    """A page of functions (tuples of levels and name). `next_page_token` is None on the last page."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StorageCredential:
    """Credential for locations that begin with `prefix`. `config` has FileIO keys such as `s3.access-key-id`."""

    prefix: str
    config: SecretDict


class StorageCredentialDocument(TypedDict):
    """A storage credential as an item of `result["storage-credentials"]`."""

    prefix: str
    config: SecretDict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Response(Mapping[str, Any]):
    """Read-only mapping of `raw`, the response document with the keys of the OpenAPI document."""

    raw: dict[str, Any] = field(repr=False)

    def __getitem__(self, key: str) -> Any:
        return self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


class _TaggedResponse(_Response):
    """A response mapping with the additional key `etag`, from the response header."""

    __slots__ = ()
    etag: str | None

    def __getitem__(self, key: str) -> Any:
        return self.etag if key == "etag" else self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.raw, "etag": None})

    def __len__(self) -> int:
        return len({**self.raw, "etag": None})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadTableResult(_TaggedResponse):
    """Result of loading, creating or registering a table."""

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: Literal["metadata"]) -> types.TableMetadata: ...

        @overload
        def __getitem__(self, key: Literal["storage-credentials"]) -> list[StorageCredentialDocument]: ...

        @overload
        def __getitem__(self, key: Literal["config"]) -> SecretDict: ...

        @overload
        def __getitem__(self, key: Literal["metadata-location", "etag"]) -> str | None: ...

        @overload
        def __getitem__(self, key: str) -> Any: ...

        def __getitem__(self, key: str) -> Any: ...

    metadata: types.TableMetadata = field(repr=False)
    metadata_location: str | None
    """None for a staged table."""
    config: SecretDict
    storage_credentials: list[StorageCredential]
    remote_signing_config: types.RemoteSigningConfig | None = field(repr=False)
    etag: str | None
    """Value for `if_none_match` of a later load with the same arguments."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitTableResult(_TaggedResponse):
    """Result of a commit."""

    metadata: types.TableMetadata = field(repr=False)
    metadata_location: str
    etag: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnregisterTableResult(_Response):
    """Last state of a table that was unregistered."""

    metadata: types.TableMetadata = field(repr=False)
    metadata_location: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadViewResult(_Response):
    """Result of loading, creating, replacing or registering a view."""

    metadata: types.ViewMetadata = field(repr=False)
    metadata_location: str | None
    config: SecretDict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadFunctionResult(_Response):
    """Result of loading a function."""

    metadata: types.FunctionMetadata = field(repr=False)
    metadata_location: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamespaceMetadata(_Response):
    """A namespace with its properties."""

    namespace: NamespaceIdentifier
    properties: dict[str, str] = field(repr=False)
    properties_supported: bool
    """False if the server sent null: it does not store namespace properties."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpdateNamespacePropertiesResult(_Response):
    """Names of the properties that were updated, removed, or missing."""

    updated: list[str]
    removed: list[str]
    missing: list[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogConfig(_Response):
    """Configuration of the server (OpenAPI, `CatalogConfig`)."""

    defaults: SecretDict
    overrides: SecretDict
    endpoints: frozenset[str] | None = field(repr=False)
    """Endpoints in the form of Endpoint. None if the server lists none."""
    idempotency_key_lifetime: timedelta | None
    """Time for which the server recognises an idempotency key. None if the server does not advertise it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSignResult:
    """A signed storage request."""

    uri: str = field(repr=False)
    headers: dict[str, list[str]] = field(repr=False)
    cacheable: bool
    """True if the signature may be reused for the same request (`Cache-Control: private`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanTasks(_Response):
    """Files to read, and plan tasks that lead to further files."""

    plan_tasks: list[str] = field(repr=False)
    file_scan_tasks: list[types.FileScanTask] = field(repr=False)
    delete_files: list[types.DeleteFile] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanResult(ScanTasks):
    """State of a scan plan, with the files known so far."""

    status: Literal["completed", "submitted", "cancelled", "failed"]
    plan_id: str | None
    storage_credentials: list[StorageCredential]
    error: CatalogError | None
