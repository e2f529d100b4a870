"""The operations of RestCatalog that lead to data: scan planning, credentials, signed requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from catalogclient._catalog.core import CallOptions, MutationOptions
from catalogclient._catalog.tables import TableMethods
from catalogclient._endpoints import Endpoint
from catalogclient._identifiers import TableLike
from catalogclient._operations import scans, storage
from catalogclient._results import PlanResult, RemoteSignResult, ScanTasks, StorageCredential
from catalogclient._scan import ScanPlan
from catalogclient.errors import CatalogError
from catalogclient.types import PlanTableScanRequest, RemoteSigningConfig, RemoteSignRequest


class AccessMethods(TableMethods):
    """Scans and storage."""

    def plan_table_scan(
        self,
        table: TableLike,
        request: PlanTableScanRequest | None = None,
        **call: Unpack[MutationOptions],
    ) -> PlanResult:
        """Have the server plan a scan; the whole of it is plan_scan. Raises NoSuchTableError.

        Source: OpenAPI, `planTableScan`.
        """
        return self._send(scans.plan(table, request), **call)

    def fetch_planning_result(self, table: TableLike, plan_id: str, **call: Unpack[CallOptions]) -> PlanResult:
        """The state of a plan. Raises NoSuchPlanIdError. Source: OpenAPI, `fetchPlanningResult`."""
        return self._send(scans.fetch_plan(table, plan_id), **call)

    def cancel_planning(self, table: TableLike, plan_id: str, **call: Unpack[MutationOptions]) -> None:
        """Tell the server that nobody waits for a plan. Raises NoSuchPlanIdError. Source: `cancelPlanning`."""
        self._send(scans.cancel(table, plan_id), **call)

    def fetch_scan_tasks(self, table: TableLike, plan_task: str, **call: Unpack[MutationOptions]) -> ScanTasks:
        """The files of one task of a plan. Raises NoSuchPlanTaskError. Source: OpenAPI, `fetchScanTasks`."""
        return self._send(scans.fetch_tasks(table, plan_task), **call)

    def plan_scan(
        self,
        table: TableLike,
        request: PlanTableScanRequest | None = None,
        *,
        poll_timeout: float = 300.0,
        **call: Unpack[CallOptions],
    ) -> ScanPlan:
        """Plan a scan, wait for the plan and fetch its tasks, all as its files are taken; use it in a `with` statement.

        `poll_timeout` is in seconds. Iterating raises PlanFailedError, PlanCancelledError, PlanTimeoutError.
        """
        return ScanPlan(_TableScan(self, table, request, call), poll_timeout=poll_timeout, pause=self._sender.pause)

    def load_credentials(
        self,
        table: TableLike,
        *,
        plan_id: str | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        fallback: bool = False,
        **call: Unpack[CallOptions],
    ) -> list[StorageCredential]:
        """Fresh credentials for the files of a table. Raises NoSuchTableError.

        With `fallback` those of a load are returned by servers that have no such endpoint. Source: `loadCredentials`.
        """
        wanted = storage.credentials(table, plan_id=plan_id, referenced_by=referenced_by)
        if not fallback:
            return self._send(wanted, **call)
        route = self._route()
        listed = route.lists_endpoints and Endpoint.LOAD_CREDENTIALS in route.supported
        if listed or not route.lists_endpoints:
            try:
                return self._send(wanted, **call)
            except CatalogError as error:
                if listed or not _is_no_endpoint(error):
                    raise
        result = self.load_table_result(
            table, referenced_by=referenced_by, access_delegation=["vended-credentials"], **call
        )
        return result.storage_credentials

    def sign_request(
        self,
        table: TableLike,
        request: RemoteSignRequest,
        *,
        signing_config: RemoteSigningConfig | None = None,
        **call: Unpack[CallOptions],
    ) -> RemoteSignResult:
        """Have the server sign a request for storage; `signing_config` is that of the load result.

        Source: OpenAPI, `signRequest`.
        """
        return self._send(storage.sign(table, request, signing_config=signing_config), **call)


@dataclass(frozen=True, slots=True)
class _TableScan:
    """The operations on one table that a scan is made of."""

    catalog: AccessMethods
    table: TableLike
    request: PlanTableScanRequest | None
    call: CallOptions

    def plan(self) -> PlanResult:
        return self.catalog.plan_table_scan(self.table, self.request, **self.call)

    def fetch(self, plan_id: str) -> PlanResult:
        return self.catalog.fetch_planning_result(self.table, plan_id, **self.call)

    def tasks(self, plan_task: str) -> ScanTasks:
        return self.catalog.fetch_scan_tasks(self.table, plan_task, **self.call)

    def cancel(self, plan_id: str) -> None:
        self.catalog.cancel_planning(self.table, plan_id, **self.call)


def _is_no_endpoint(error: CatalogError) -> bool:
    """Whether the server does not know the path, rather than the table."""
    unknown_route = error.status in (400, 404) and error.type not in (
        "NoSuchTableException",
        "NoSuchNamespaceException",
    )
    return unknown_route or error.status in (405, 501)
