"""Scan planning, storage credentials, remote signing and metrics reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from catalogclient import _call_scope, _headers, types
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import TableLike
from catalogclient._messages import Call, encode_json
from catalogclient._operations import parsing
from catalogclient._operations.core import operation
from catalogclient._operations.request_parts import object_path, references
from catalogclient._operations.tables import TableOperations
from catalogclient._options import CallOptions, MutationOptions
from catalogclient._results import PlanResult, RemoteSignResult, ScanTasks, StorageCredential
from catalogclient._scan import AsyncScanPlan
from catalogclient.errors import CatalogError, InvalidArgumentError

_CANCEL_TIMEOUT = 10.0
"""Seconds for cancelling a plan that is left early. Leaving must not take as long as a call."""


class ScanOperations(TableOperations):
    @operation
    async def plan_table_scan(
        self, table: TableLike, request: types.PlanTableScanRequest | None = None, **call: Unpack[MutationOptions]
    ) -> PlanResult:
        """Start planning a scan; plan_scan does all steps. Raises NoSuchTableError. Source: `planTableScan`."""
        document = dict(request or {})
        between = {"start-snapshot-id", "end-snapshot-id"} & set(document)
        if "snapshot-id" in document and between:
            raise InvalidArgumentError("a scan reads one snapshot or the changes between two, not both")
        if between == {"start-snapshot-id"}:
            raise InvalidArgumentError("start-snapshot-id requires end-snapshot-id")
        return await self._call(Endpoint.PLAN_TABLE_SCAN, parsing.new_plan, object_path(table), body=document, **call)

    @operation
    async def fetch_planning_result(self, table: TableLike, plan_id: str, **call: Unpack[CallOptions]) -> PlanResult:
        """Return the state of a plan. Raises NoSuchPlanIdError. Source: OpenAPI, `fetchPlanningResult`."""
        return await self._call(
            Endpoint.FETCH_PLANNING_RESULT, parsing.plan, object_path(table, **{"plan-id": _segment(plan_id)}), **call
        )

    @operation
    async def cancel_planning(self, table: TableLike, plan_id: str, **call: Unpack[MutationOptions]) -> None:
        """Cancel a plan. Raises NoSuchPlanIdError. Source: OpenAPI, `cancelPlanning`."""
        await self._call(
            Endpoint.CANCEL_PLANNING, parsing.ignore_body, object_path(table, **{"plan-id": _segment(plan_id)}), **call
        )

    @operation
    async def fetch_scan_tasks(self, table: TableLike, plan_task: str, **call: Unpack[MutationOptions]) -> ScanTasks:
        """Return the files of a plan task. Raises NoSuchPlanTaskError. Source: OpenAPI, `fetchScanTasks`."""
        return await self._call(
            Endpoint.FETCH_SCAN_TASKS, parsing.scan_tasks, object_path(table), body={"plan-task": plan_task}, **call
        )

    def plan_scan(
        self,
        table: TableLike,
        request: types.PlanTableScanRequest | None = None,
        *,
        poll_timeout: float = 300.0,
        **call: Unpack[CallOptions],
    ) -> AsyncScanPlan:
        """Plan a scan, poll the plan and fetch its tasks as files are consumed. Use it in a `with` statement.

        `poll_timeout` is in seconds. Iterating raises PlanFailedError, PlanCancelledError, PlanTimeoutError.
        """
        return AsyncScanPlan(_TablePlanner(self, table, request, call), poll_timeout=poll_timeout)

    @operation
    async def load_credentials(
        self,
        table: TableLike,
        *,
        plan_id: str | None = None,
        referenced_by: Sequence[TableLike] | None = None,
        fallback: bool = False,
        **call: Unpack[CallOptions],
    ) -> list[StorageCredential]:
        """Return new credentials for the files of a table. Raises NoSuchTableError.

        `fallback` uses the credentials of a load if the server has no credentials endpoint. Source: OpenAPI,
        `loadCredentials`.
        """
        prepared = Call(
            operation=OPERATIONS[Endpoint.LOAD_CREDENTIALS],
            values=object_path(table),
            query=(*((("planId", plan_id),) if plan_id is not None else ()), *references(referenced_by)),
            read=lambda response: parsing.credentials(parsing.document(response)),
        )
        route = await self._route()
        is_listed = route.lists_endpoints and not route.lacks(prepared.operation)
        if not fallback or is_listed or not route.lists_endpoints:
            try:
                return await self._send(prepared, **call)
            except CatalogError as error:
                if not fallback or is_listed or not _is_unknown_endpoint(error):
                    raise
        result = await self.load_table_result(
            table, referenced_by=referenced_by, access_delegation=["vended-credentials"], **call
        )
        return result.storage_credentials

    @operation
    async def sign_request(
        self,
        table: TableLike,
        request: types.RemoteSignRequest,
        *,
        signing_config: types.RemoteSigningConfig | None = None,
        **call: Unpack[CallOptions],
    ) -> RemoteSignResult:
        """Request the server to sign a storage request. `signing_config` is part of the load result.

        Source: OpenAPI, `signRequest`.
        """
        document: dict[str, Any] = {**request}
        config = signing_config or {}
        properties = config.get("properties")
        if properties:
            document["properties"] = {**document.get("properties", {}), **properties}
        fields: dict[str, str] = {}
        for name, values in (config.get("headers") or {}).items():
            if isinstance(values, str):
                raise InvalidArgumentError("the values of headers in signing_config must be lists of strings")
            fields[name] = ", ".join(values)
        _headers.check(fields)
        return await self._send(
            Call(
                operation=OPERATIONS[Endpoint.SIGN_REQUEST],
                values=object_path(table),
                body=encode_json(document),
                headers=fields,
                read=parsing.signature,
            ),
            **call,
        )

    @operation
    async def report_metrics(
        self, table: TableLike, report: types.ReportMetricsRequest, **call: Unpack[CallOptions]
    ) -> None:
        """Send a metrics report of a scan or commit, without retries. Raises NoSuchTableError.

        Source: OpenAPI, `reportMetrics`.
        """
        await self._call(Endpoint.REPORT_METRICS, parsing.ignore_body, object_path(table), body=report, **call)


@dataclass(frozen=True, slots=True)
class _TablePlanner:
    """Scan planning operations for one table."""

    catalog: ScanOperations
    table: TableLike
    request: types.PlanTableScanRequest | None
    call: CallOptions

    async def plan(self) -> PlanResult:
        return await self.catalog.plan_table_scan(self.table, self.request, **self.call)

    async def fetch(self, plan_id: str) -> PlanResult:
        return await self.catalog.fetch_planning_result(self.table, plan_id, **self.call)

    async def tasks(self, plan_task: str) -> ScanTasks:
        return await self.catalog.fetch_scan_tasks(self.table, plan_task, **self.call)

    async def cancel(self, plan_id: str) -> None:
        catalog = self.catalog
        with _call_scope.enter(catalog._timeout, _CANCEL_TIMEOUT, catalog._runtime.closed):
            await catalog.cancel_planning(self.table, plan_id, **self.call)

    async def sleep(self, seconds: float) -> None:
        await self.catalog._runtime.sleep(seconds)


def _segment(plan_id: object) -> str:
    if not isinstance(plan_id, str) or plan_id in ("", ".", ".."):
        raise InvalidArgumentError("a plan id must be a string other than '', '.' and '..'")
    return plan_id


def _is_unknown_endpoint(error: CatalogError) -> bool:
    """Return True if the server does not know the path, in contrast to the table."""
    is_unknown_route = error.status in (400, 404) and error.type not in (
        "NoSuchTableException",
        "NoSuchNamespaceException",
    )
    return is_unknown_route or error.status in (405, 501)
