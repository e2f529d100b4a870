"""RestCatalog, the blocking client of one catalog."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from catalogclient._constructors import CatalogConstructors, open_auth
from catalogclient._identifiers import TableLike
from catalogclient._lazy_transport import LazyTransport
from catalogclient._operations import CatalogOperations
from catalogclient._options import CallOptions, RestCatalogOptions
from catalogclient._runtime import BlockingRuntime, iterate, run
from catalogclient._scan import ScanPlan
from catalogclient.auth._base import AuthManager
from catalogclient.auth._config import AuthConfig
from catalogclient.types import PlanTableScanRequest

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[CatalogOperations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[RestCatalog, P], T]:
    @functools.wraps(method)
    def call(self: RestCatalog, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self._operations, *args, **kwargs))

    return call


def _blocking_iterator(
    method: Callable[Concatenate[CatalogOperations, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[RestCatalog, P], Iterator[T]]:
    @functools.wraps(method)
    def call(self: RestCatalog, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterate(method(self._operations, *args, **kwargs))

    returned = method.__annotations__["return"].replace("AsyncGenerator", "Iterator").replace(", None]", "]")
    call.__signature__ = inspect.signature(method).replace(return_annotation=returned)  # type: ignore[attr-defined]  # inspect reads it
    return call


class RestCatalog(CatalogConstructors):
    """Client of an Iceberg REST catalog. Any number of threads may use one object.

    Every operation accepts `timeout` (seconds: one number, or a pair for connection and read) and `headers` for that
    call, and every change `idempotency_key`. Every failure raises CatalogError.
    """

    _operations: CatalogOperations

    def _open(self, options: RestCatalogOptions) -> None:
        runtime = BlockingRuntime(LazyTransport(options))
        auth, owns_auth = open_auth(options.auth)
        self._operations = CatalogOperations(options, runtime, auth=auth, owns_auth=owns_auth)

    def with_auth(self, auth: AuthConfig | AuthManager) -> Self:
        """Return a catalog with other credentials. It shares connections and configuration. Close it separately."""
        sibling = type(self).__new__(type(self))
        manager, owns_auth = open_auth(auth)
        sibling._operations = self._operations._sibling(manager, owns_auth=owns_auth)
        return sibling

    def close(self) -> None:
        """End delays between attempts and close connections. Later calls raise ClientClosedError."""
        run(self._operations.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._operations).replace(type(self._operations).__name__, type(self).__name__, 1)

    def plan_scan(
        self,
        table: TableLike,
        request: PlanTableScanRequest | None = None,
        *,
        poll_timeout: float = 300.0,
        **call: Unpack[CallOptions],
    ) -> ScanPlan:
        """Plan a scan, poll the plan and fetch its tasks as files are consumed. Use it in a `with` statement.

        `poll_timeout` is in seconds. Iterating raises PlanFailedError, PlanCancelledError, PlanTimeoutError.
        """
        return ScanPlan(self._operations.plan_scan(table, request, poll_timeout=poll_timeout, **call))

    load_config = _blocking(CatalogOperations.load_config)
    prefix = _blocking(CatalogOperations.prefix)
    supports = _blocking(CatalogOperations.supports)
    request = _blocking(CatalogOperations.request)

    list_namespaces = _blocking(CatalogOperations.list_namespaces)
    iter_namespaces = _blocking_iterator(CatalogOperations.iter_namespaces)
    create_namespace = _blocking(CatalogOperations.create_namespace)
    create_namespace_if_not_exists = _blocking(CatalogOperations.create_namespace_if_not_exists)
    load_namespace_metadata = _blocking(CatalogOperations.load_namespace_metadata)
    namespace_exists = _blocking(CatalogOperations.namespace_exists)
    drop_namespace = _blocking(CatalogOperations.drop_namespace)
    update_namespace_properties = _blocking(CatalogOperations.update_namespace_properties)

    list_tables = _blocking(CatalogOperations.list_tables)
    iter_tables = _blocking_iterator(CatalogOperations.iter_tables)
    create_table = _blocking(CatalogOperations.create_table)
    create_table_result = _blocking(CatalogOperations.create_table_result)
    create_table_if_not_exists = _blocking(CatalogOperations.create_table_if_not_exists)
    load_table = _blocking(CatalogOperations.load_table)
    load_table_result = _blocking(CatalogOperations.load_table_result)
    table_exists = _blocking(CatalogOperations.table_exists)
    drop_table = _blocking(CatalogOperations.drop_table)
    register_table = _blocking(CatalogOperations.register_table)
    register_table_result = _blocking(CatalogOperations.register_table_result)
    unregister_table = _blocking(CatalogOperations.unregister_table)
    rename_table = _blocking(CatalogOperations.rename_table)

    update_table = _blocking(CatalogOperations.update_table)
    commit_table = update_table
    commit = _blocking(CatalogOperations.commit)
    commit_transaction = _blocking(CatalogOperations.commit_transaction)
    reconcile_commit = _blocking(CatalogOperations.reconcile_commit)

    plan_table_scan = _blocking(CatalogOperations.plan_table_scan)
    fetch_planning_result = _blocking(CatalogOperations.fetch_planning_result)
    cancel_planning = _blocking(CatalogOperations.cancel_planning)
    fetch_scan_tasks = _blocking(CatalogOperations.fetch_scan_tasks)
    load_credentials = _blocking(CatalogOperations.load_credentials)
    sign_request = _blocking(CatalogOperations.sign_request)
    report_metrics = _blocking(CatalogOperations.report_metrics)

    list_views = _blocking(CatalogOperations.list_views)
    iter_views = _blocking_iterator(CatalogOperations.iter_views)
    create_view = _blocking(CatalogOperations.create_view)
    create_view_result = _blocking(CatalogOperations.create_view_result)
    load_view = _blocking(CatalogOperations.load_view)
    load_view_result = _blocking(CatalogOperations.load_view_result)
    replace_view = _blocking(CatalogOperations.replace_view)
    replace_view_result = _blocking(CatalogOperations.replace_view_result)
    view_exists = _blocking(CatalogOperations.view_exists)
    drop_view = _blocking(CatalogOperations.drop_view)
    rename_view = _blocking(CatalogOperations.rename_view)
    register_view = _blocking(CatalogOperations.register_view)
    register_view_result = _blocking(CatalogOperations.register_view_result)

    list_functions = _blocking(CatalogOperations.list_functions)
    iter_functions = _blocking_iterator(CatalogOperations.iter_functions)
    load_function = _blocking(CatalogOperations.load_function)
    load_function_result = _blocking(CatalogOperations.load_function_result)
