"""Scans planned by the server."""

from __future__ import annotations

from typing import Any

import pytest

from catalogclient import (
    CatalogError,
    CustomAuth,
    InvalidResponseError,
    PlanCancelledError,
    PlanFailedError,
    PlanResult,
    PlanTimeoutError,
    ScanPlan,
    ScanTasks,
    ServerError,
    _call_scope,
    expressions,
)
from catalogclient._scan import AsyncScanPlan
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

T = "/v1/namespaces/a/tables/t"


def task(path: str, *deletes: int) -> dict[str, Any]:
    return {"data-file": {"content": "data", "file-path": path}, "delete-file-references": list(deletes)}


def requests(peer: HttpPeer) -> list[str]:
    return [f"{request.method} {request.target}" for request in peer.received]


def test_a_completed_plan_is_not_polled(peer: HttpPeer, connect: Connect) -> None:
    deletes = [{"content": "position-deletes", "file-path": "d0"}, {"content": "equality-deletes", "file-path": "d1"}]
    credentials = [{"prefix": "s3://b/", "config": {"k": "s3cr3t"}}]
    peer.respond(
        in_json(
            {
                "status": "completed",
                "file-scan-tasks": [task("f0"), task("f1", 1, 0)],
                "delete-files": deletes,
                "storage-credentials": credentials,
            }
        )
    )
    with connect().plan_scan("a.t", {"select": ["id"], "filter": expressions.eq("id", 1)}) as scan:
        assert peer.received == []
        result = [(task["data-file"]["file-path"], [one["file-path"] for one in gone]) for task, gone in scan]
    assert result == [("f0", []), ("f1", ["d1", "d0"])]
    assert scan.storage_credentials[0].config["k"] == "s3cr3t"
    assert requests(peer) == [f"POST {T}/plan"]
    assert peer.received[0].json() == {"select": ["id"], "filter": {"type": "eq", "term": "id", "value": 1}}


def test_cancelling_has_a_short_deadline_of_its_own(peer: HttpPeer, connect: Connect) -> None:
    left: list[float] = []

    def fields() -> dict[str, str]:
        scope = _call_scope.current()
        assert scope is not None
        left.append(scope.remaining() or 0.0)
        return {}

    peer.respond(in_json({"status": "completed", "plan-id": "p", "file-scan-tasks": [task("f")], "plan-tasks": ["k"]}))
    with connect(auth=CustomAuth(fields)).plan_scan("a.t") as scan:
        next(scan)
    assert [request.method for request in peer.received] == ["POST", "DELETE"]
    assert left[0] > 500
    assert left[1] <= 10


class Planner:
    """Fake scan planning operations with prepared results."""

    def __init__(self, *plans: Any, tasks: dict[str, Any] | None = None) -> None:
        self.delays: list[float] = []
        self.plans = list(plans)
        self.known = tasks or {}
        self.did: list[str] = []

    async def plan(self) -> PlanResult:
        self.did.append("plan")
        return self._next()

    async def fetch(self, plan_id: str) -> PlanResult:
        self.did.append(f"fetch {plan_id}")
        return self._next()

    async def tasks(self, plan_task: str) -> ScanTasks:
        self.did.append(f"tasks {plan_task}")
        result = self.known[plan_task]
        if isinstance(result, Exception):
            raise result
        return ScanTasks(raw={}, **result)

    async def cancel(self, plan_id: str) -> None:
        self.did.append(f"cancel {plan_id}")
        raise ServerError("gone", status=500)

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)

    def _next(self) -> PlanResult:
        plan = self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
        blank: dict[str, Any] = {"raw": {}, "plan_id": None, "storage_credentials": [], "error": None}
        return PlanResult(**{**blank, **part(), **plan})


def part(*files: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"file_scan_tasks": [task(file) for file in files], "delete_files": [], "plan_tasks": list(more)}


def scan_of(planner: Planner, *, poll_timeout: float = 300.0) -> ScanPlan:
    return ScanPlan(AsyncScanPlan(planner, poll_timeout=poll_timeout))


SUBMITTED = {"status": "submitted", "plan_id": "p"}


def test_a_plan_is_polled_and_its_tasks_are_fetched_in_order() -> None:
    tasks = {"k1": part("f1", more=("k3",)), "k2": part("f2"), "k3": part("f3")}
    planner = Planner(
        SUBMITTED, {"status": "submitted"}, {"status": "completed", **part("f0", more=("k1", "k2"))}, tasks=tasks
    )
    with scan_of(planner) as scan:
        files = [task["data-file"]["file-path"] for task, _ in scan]
        assert scan.plan_id == "p"
    assert files == ["f0", "f1", "f2", "f3"]
    assert planner.delays == [1.0, 2.0]
    assert planner.did == ["plan", "fetch p", "fetch p", "tasks k1", "tasks k2", "tasks k3"]


def test_polling_delays_grow_to_one_minute() -> None:
    planner = Planner(*[SUBMITTED] * 9, {"status": "completed"})
    assert list(scan_of(planner)) == []
    assert planner.delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_polling_ends_after_poll_timeout() -> None:
    planner = Planner(SUBMITTED)
    with pytest.raises(PlanTimeoutError):
        next(scan_of(planner, poll_timeout=0.5))
    assert planner.did == ["plan", "cancel p"]


def test_leaving_early_cancels_once_and_ignores_failures() -> None:
    planner = Planner({"status": "completed", "plan_id": "p", **part("f0", "f1", more=("k1",))})
    with scan_of(planner) as scan:
        next(scan)
    scan.close()
    assert planner.did == ["plan", "cancel p"]
    assert list(scan) == []


def test_a_scan_without_iteration_sends_nothing() -> None:
    planner = Planner(SUBMITTED)
    with scan_of(planner):
        pass
    assert planner.did == []


def test_a_failure_cancels_the_plan() -> None:
    planner = Planner({**SUBMITTED, "status": "completed", **part(more=("k1",))}, tasks={"k1": ServerError("x")})
    with pytest.raises(ServerError), scan_of(planner) as scan:
        list(scan)
    assert planner.did == ["plan", "tasks k1", "cancel p"]


def test_a_finished_scan_is_not_cancelled() -> None:
    planner = Planner({"status": "completed", "plan_id": "p", **part("f0", more=("k",))}, tasks={"k": part("f1")})
    with scan_of(planner) as scan:
        assert len(list(scan)) == 2
    assert planner.did == ["plan", "tasks k"]


def test_a_fetched_plan_is_not_cancelled() -> None:
    for planner in (
        Planner({"status": "completed", "plan_id": "p", **part("f0", "f1")}),
        Planner({"status": "completed", "plan_id": "p", **part(more=("k",))}, tasks={"k": part("f0", "f1")}),
    ):
        with scan_of(planner) as scan:
            next(scan)
        assert not any(step.startswith("cancel") for step in planner.did)


def test_a_plan_task_that_names_itself_ends_with_an_error() -> None:
    planner = Planner(
        {"status": "completed", "plan_id": "p", **part(more=("k1",))},
        tasks={"k1": part("f1", more=("k2",)), "k2": part("f2", more=("k1",))},
    )
    with pytest.raises(InvalidResponseError, match="repeats a plan task"), scan_of(planner) as scan:
        list(scan)
    assert planner.did == ["plan", "tasks k1", "tasks k2", "cancel p"]


def test_failed_and_cancelled_plans_are_not_cancelled() -> None:
    error = CatalogError("why", type="SomeException", code=7)
    planner = Planner(SUBMITTED, {"status": "failed", "error": error})
    with pytest.raises(PlanFailedError) as caught:
        list(scan_of(planner))
    assert (caught.value.message, caught.value.type, caught.value.code) == ("why", "SomeException", 7)
    assert planner.did == ["plan", "fetch p"]
    planner = Planner(SUBMITTED, {"status": "cancelled"})
    with pytest.raises(PlanCancelledError):
        list(scan_of(planner))
    assert planner.did == ["plan", "fetch p"]


@pytest.mark.parametrize("number", [1, 5, -1])
def test_a_delete_file_must_be_in_the_same_response(peer: HttpPeer, connect: Connect, number: int) -> None:
    body = {"status": "completed", "file-scan-tasks": [task("f", number)], "delete-files": [{}]}
    peer.respond(in_json(body))
    with pytest.raises(InvalidResponseError), connect().plan_scan("a.t") as scan:
        list(scan)


@pytest.mark.parametrize("body", [{"status": "cancelled"}, {"status": "submitted"}, {"status": "new"}, {}])
def test_invalid_states_of_a_new_plan_are_errors(peer: HttpPeer, connect: Connect, body: Any) -> None:
    peer.respond(in_json(body))
    with pytest.raises(InvalidResponseError):
        connect().plan_table_scan("a.t")


def test_the_reason_of_a_failed_plan_is_in_the_result(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"status": "failed", "error": {"message": "m", "type": "T", "code": 400, "stack": ["s"]}}))
    catalog = connect()
    error = catalog.fetch_planning_result("a.t", "p").error
    assert error is not None
    assert (error.message, error.type, error.code, error.stack) == ("m", "T", 400, ["s"])
    with pytest.raises(PlanFailedError, match="m"), catalog.plan_scan("a.t") as scan:
        list(scan)


def test_an_abandoned_plan_is_cancelled_on_the_wire(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"status": "completed", "plan-id": "p", "file-scan-tasks": [task("f")], "plan-tasks": ["k"]}))
    with connect().plan_scan("a.t") as scan:
        peer.respond(Response(status=204), path=f"{T}/plan/p")
        next(scan)
    assert requests(peer) == [f"POST {T}/plan", f"DELETE {T}/plan/p"]
