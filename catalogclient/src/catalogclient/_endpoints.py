"""Table of the operations: endpoint, retry class, idempotency key, access delegation and default error classes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from catalogclient import errors

_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"


class Endpoint(StrEnum):
    """An operation of the Iceberg REST OpenAPI document, in the form that servers list it in their configuration."""

    LOAD_CONFIG = "GET /v1/config"
    GET_TOKEN = "POST /v1/oauth/tokens"
    LIST_NAMESPACES = "GET /v1/{prefix}/namespaces"
    CREATE_NAMESPACE = "POST /v1/{prefix}/namespaces"
    LOAD_NAMESPACE_METADATA = f"GET {_NAMESPACE}"
    NAMESPACE_EXISTS = f"HEAD {_NAMESPACE}"
    DROP_NAMESPACE = f"DELETE {_NAMESPACE}"
    UPDATE_NAMESPACE_PROPERTIES = f"POST {_NAMESPACE}/properties"
    LIST_TABLES = f"GET {_NAMESPACE}/tables"
    CREATE_TABLE = f"POST {_NAMESPACE}/tables"
    LIST_FUNCTIONS = f"GET {_NAMESPACE}/functions"
    LOAD_FUNCTION = f"GET {_NAMESPACE}/functions/{{function}}"
    PLAN_TABLE_SCAN = f"POST {_TABLE}/plan"
    FETCH_PLANNING_RESULT = f"GET {_TABLE}/plan/{{plan-id}}"
    CANCEL_PLANNING = f"DELETE {_TABLE}/plan/{{plan-id}}"
    FETCH_SCAN_TASKS = f"POST {_TABLE}/tasks"
    REGISTER_TABLE = f"POST {_NAMESPACE}/register"
    LOAD_TABLE = f"GET {_TABLE}"
    UPDATE_TABLE = f"POST {_TABLE}"
    DROP_TABLE = f"DELETE {_TABLE}"
    TABLE_EXISTS = f"HEAD {_TABLE}"
    UNREGISTER_TABLE = f"POST {_TABLE}/unregister"
    LOAD_CREDENTIALS = f"GET {_TABLE}/credentials"
    SIGN_REQUEST = f"POST {_TABLE}/sign"
    RENAME_TABLE = "POST /v1/{prefix}/tables/rename"
    REPORT_METRICS = f"POST {_TABLE}/metrics"
    COMMIT_TRANSACTION = "POST /v1/{prefix}/transactions/commit"
    LIST_VIEWS = f"GET {_NAMESPACE}/views"
    CREATE_VIEW = f"POST {_NAMESPACE}/views"
    LOAD_VIEW = f"GET {_VIEW}"
    REPLACE_VIEW = f"POST {_VIEW}"
    DROP_VIEW = f"DELETE {_VIEW}"
    VIEW_EXISTS = f"HEAD {_VIEW}"
    RENAME_VIEW = "POST /v1/{prefix}/views/rename"
    REGISTER_VIEW = f"POST {_NAMESPACE}/register-view"

    @property
    def method(self) -> str:
        return self.value.partition(" ")[0]

    @property
    def template(self) -> str:
        """Path with placeholders such as `{prefix}` and `{namespace}`."""
        return self.value.partition(" ")[2]


class Effect(Enum):
    """Side effect of an operation. It decides about retries."""

    NONE = "reads only, may be repeated"
    CHANGE = "changes the catalog, is repeated only with a recognised idempotency key"
    COMMIT = "changes a table, an unknown outcome is reported as CommitStateUnknownError"
    REPORT = "reports metrics, is never repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Properties of one operation."""

    name: str
    """Name of the RestCatalog method."""
    method: str
    template: str
    effect: Effect
    keyed: bool
    """Sends an Idempotency-Key header."""
    delegating: bool
    """Sends X-Iceberg-Access-Delegation if access delegation is requested."""
    not_found: type[errors.NotFoundError] = errors.NotFoundError
    """Error class for a 404 without a known `type`."""
    conflict: type[errors.ConflictError] = errors.ConflictError
    """Error class for a 409 without a known `type`."""

    @property
    def endpoint(self) -> str:
        """Form in which servers list the operation in their configuration."""
        return f"{self.method} {self.template}"


_READING_POSTS = {Endpoint.GET_TOKEN, Endpoint.PLAN_TABLE_SCAN, Endpoint.FETCH_SCAN_TASKS, Endpoint.SIGN_REQUEST}
_COMMITS = {Endpoint.UPDATE_TABLE, Endpoint.COMMIT_TRANSACTION, Endpoint.REPLACE_VIEW}
_WITHOUT_KEY = {Endpoint.GET_TOKEN, Endpoint.SIGN_REQUEST, Endpoint.REPORT_METRICS}
_DELEGATING = {
    *(Endpoint.CREATE_TABLE, Endpoint.LOAD_TABLE, Endpoint.REGISTER_TABLE, Endpoint.TABLE_EXISTS),
    *(Endpoint.PLAN_TABLE_SCAN, Endpoint.FETCH_PLANNING_RESULT, Endpoint.CANCEL_PLANNING),
}
_MISSING = {
    errors.NoSuchWarehouseError: {Endpoint.LOAD_CONFIG},
    errors.NoSuchNamespaceError: {
        *(Endpoint.LIST_NAMESPACES, Endpoint.CREATE_NAMESPACE, Endpoint.LOAD_NAMESPACE_METADATA),
        *(Endpoint.NAMESPACE_EXISTS, Endpoint.DROP_NAMESPACE, Endpoint.UPDATE_NAMESPACE_PROPERTIES),
        *(Endpoint.LIST_TABLES, Endpoint.CREATE_TABLE, Endpoint.LIST_FUNCTIONS, Endpoint.REGISTER_TABLE),
        *(Endpoint.LIST_VIEWS, Endpoint.CREATE_VIEW, Endpoint.REGISTER_VIEW),
    },
    errors.NoSuchTableError: {
        *(Endpoint.PLAN_TABLE_SCAN, Endpoint.LOAD_TABLE, Endpoint.UPDATE_TABLE, Endpoint.DROP_TABLE),
        *(Endpoint.TABLE_EXISTS, Endpoint.UNREGISTER_TABLE, Endpoint.LOAD_CREDENTIALS, Endpoint.RENAME_TABLE),
        *(Endpoint.REPORT_METRICS, Endpoint.COMMIT_TRANSACTION),
    },
    errors.NoSuchViewError: {
        *(Endpoint.LOAD_VIEW, Endpoint.REPLACE_VIEW, Endpoint.DROP_VIEW, Endpoint.VIEW_EXISTS, Endpoint.RENAME_VIEW)
    },
    errors.NoSuchFunctionError: {Endpoint.LOAD_FUNCTION},
    errors.NoSuchPlanIdError: {Endpoint.FETCH_PLANNING_RESULT, Endpoint.CANCEL_PLANNING},
    errors.NoSuchPlanTaskError: {Endpoint.FETCH_SCAN_TASKS},
}
_CONFLICTING = {
    errors.AlreadyExistsError: {
        *(Endpoint.CREATE_NAMESPACE, Endpoint.CREATE_TABLE, Endpoint.REGISTER_TABLE, Endpoint.RENAME_TABLE),
        *(Endpoint.CREATE_VIEW, Endpoint.RENAME_VIEW, Endpoint.REGISTER_VIEW),
    },
    errors.NamespaceNotEmptyError: {Endpoint.DROP_NAMESPACE},
    errors.CommitFailedError: _COMMITS,
}


def _effect(endpoint: Endpoint) -> Effect:
    if endpoint in _COMMITS:
        return Effect.COMMIT
    if endpoint is Endpoint.REPORT_METRICS:
        return Effect.REPORT
    if endpoint.method in ("GET", "HEAD") or endpoint in _READING_POSTS:
        return Effect.NONE
    return Effect.CHANGE


def _operation(endpoint: Endpoint) -> Operation:
    return Operation(
        name=endpoint.name.lower(),
        method=endpoint.method,
        template=endpoint.template,
        effect=_effect(endpoint),
        keyed=endpoint.method in ("POST", "DELETE") and endpoint not in _WITHOUT_KEY,
        delegating=endpoint in _DELEGATING,
        not_found=next((kind for kind, at in _MISSING.items() if endpoint in at), errors.NotFoundError),
        conflict=next((kind for kind, at in _CONFLICTING.items() if endpoint in at), errors.ConflictError),
    )


OPERATIONS = {endpoint: _operation(endpoint) for endpoint in Endpoint}

VIEW_ENDPOINTS = frozenset(
    {
        *(Endpoint.LIST_VIEWS, Endpoint.LOAD_VIEW, Endpoint.CREATE_VIEW),
        *(Endpoint.REPLACE_VIEW, Endpoint.DROP_VIEW, Endpoint.RENAME_VIEW),
    }
)
"""Endpoints that `view-endpoints-supported` adds for a server that lists no endpoints."""

DEFAULT_ENDPOINTS = frozenset(
    {
        *(Endpoint.LIST_NAMESPACES, Endpoint.CREATE_NAMESPACE, Endpoint.LOAD_NAMESPACE_METADATA),
        *(Endpoint.DROP_NAMESPACE, Endpoint.UPDATE_NAMESPACE_PROPERTIES, Endpoint.LIST_TABLES),
        *(Endpoint.CREATE_TABLE, Endpoint.LOAD_TABLE, Endpoint.UPDATE_TABLE, Endpoint.DROP_TABLE),
        *(Endpoint.REGISTER_TABLE, Endpoint.REPORT_METRICS, Endpoint.RENAME_TABLE, Endpoint.COMMIT_TRANSACTION),
    }
)
"""Default endpoints of a server that lists none (OpenAPI, `CatalogConfig.endpoints`)."""


def parse(entry: str) -> str | None:
    """Convert an entry of a server's endpoint list to the form of `Endpoint`. Returns None for an invalid entry."""
    parts = entry.split()
    return " ".join(parts) if len(parts) == 2 and parts[1].startswith("/") else None
