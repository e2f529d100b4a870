"""Scan planning: plan, fetch a plan, cancel it, fetch its tasks; reports of scans and commits."""

from __future__ import annotations

from typing import Any

from catalogclient import _encoding, _error_mapping
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._identifiers import TableLike
from catalogclient._messages import Call, Reply
from catalogclient._operations import reading, tables
from catalogclient._results import PlanResult, ScanTasks
from catalogclient.errors import CatalogError, InvalidArgumentError, InvalidResponseError
from catalogclient.types import PlanTableScanRequest, ReportMetricsRequest

_STATES = ("completed", "submitted", "cancelled", "failed")


def plan(table: TableLike, request: PlanTableScanRequest | None) -> Call[PlanResult]:
    document = dict(request or {})
    between = {"start-snapshot-id", "end-snapshot-id"} & set(document)
    if "snapshot-id" in document and between:
        raise InvalidArgumentError("a scan is of one snapshot or between two, not both")
    if between == {"start-snapshot-id"}:
        raise InvalidArgumentError("start-snapshot-id needs end-snapshot-id")

    def read(reply: Reply) -> PlanResult:
        result = _plan(reply)
        if result.status == "cancelled":
            raise InvalidResponseError("a plan cannot be cancelled before it is made", status=reply.status)
        if result.status == "submitted" and not result.plan_id:
            raise InvalidResponseError("the answer has no plan-id", status=reply.status)
        return result

    return Call(
        operation=OPERATIONS[Endpoint.PLAN_TABLE_SCAN],
        values=tables.place(table),
        body=_encoding.body(document),
        read=read,
    )


def fetch_plan(table: TableLike, plan_id: str) -> Call[PlanResult]:
    return Call(
        operation=OPERATIONS[Endpoint.FETCH_PLANNING_RESULT],
        values={**tables.place(table), "plan-id": _segment(plan_id)},
        read=_plan,
    )


def cancel(table: TableLike, plan_id: str) -> Call[None]:
    return Call(
        operation=OPERATIONS[Endpoint.CANCEL_PLANNING],
        values={**tables.place(table), "plan-id": _segment(plan_id)},
        read=reading.nothing,
    )


def fetch_tasks(table: TableLike, plan_task: str) -> Call[ScanTasks]:
    def read(reply: Reply) -> ScanTasks:
        body = reading.document(reply)
        return ScanTasks(raw=body, **_tasks(body))

    return Call(
        operation=OPERATIONS[Endpoint.FETCH_SCAN_TASKS],
        values=tables.place(table),
        body=_encoding.body({"plan-task": plan_task}),
        read=read,
    )


def report(table: TableLike, document: ReportMetricsRequest) -> Call[None]:
    return Call(
        operation=OPERATIONS[Endpoint.REPORT_METRICS],
        values=tables.place(table),
        body=_encoding.body(document),
        read=reading.nothing,
    )


def _plan(reply: Reply) -> PlanResult:
    body = reading.document(reply)
    status = body.get("status")
    if status not in _STATES:
        raise InvalidResponseError("the answer has no known status of the plan", status=reply.status)
    return PlanResult(
        raw=body,
        status=status,
        plan_id=reading.optional_text(body, "plan-id"),
        storage_credentials=reading.credentials(body),
        error=_failure(body) if status == "failed" else None,
        **_tasks(body),
    )


def _failure(body: dict[str, Any]) -> CatalogError:
    told = _error_mapping.parse_error_body(body)
    return CatalogError(
        told.message or "the server could not plan the scan", type=told.type, code=told.code, stack=told.stack
    )


def _tasks(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "plan_tasks": reading.texts(body, "plan-tasks"),
        "file_scan_tasks": reading.objects(body, "file-scan-tasks"),
        "delete_files": reading.objects(body, "delete-files"),
    }


def _segment(plan_id: object) -> str:
    if not isinstance(plan_id, str) or plan_id in ("", ".", ".."):
        raise InvalidArgumentError("a plan id is text, and neither empty nor '.' nor '..'")
    return plan_id
