"""Runs a scan plan: polls the plan, fetches its plan tasks and cancels it if it is abandoned."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Protocol, Self, TypeAlias

from catalogclient._guards import convert_errors
from catalogclient._log import HTTP
from catalogclient._options import time_limit
from catalogclient._results import PlanResult, ScanTasks, StorageCredential
from catalogclient._runtime import run
from catalogclient.errors import (
    CatalogError,
    InvalidResponseError,
    PlanCancelledError,
    PlanFailedError,
    PlanTimeoutError,
)
from catalogclient.types import DeleteFile, FileScanTask

_FIRST_DELAY = 1.0
_MAX_DELAY = 60.0

Task: TypeAlias = tuple[FileScanTask, list[DeleteFile]]
"""A file to read with the delete files that apply to it."""


class Planner(Protocol):
    """Scan planning operations for one table."""

    async def plan(self) -> PlanResult: ...

    async def fetch(self, plan_id: str) -> PlanResult: ...

    async def tasks(self, plan_task: str) -> ScanTasks: ...

    async def cancel(self, plan_id: str) -> None: ...

    async def sleep(self, seconds: float) -> None: ...


class AsyncScanPlan:
    """Asynchronous iterator over the files of a scan, each with its delete files. Use it in one task.

    The first request is sent with the first item. Leaving the `async with` statement before the last item cancels the
    plan.
    """

    def __init__(self, planner: Planner, *, poll_timeout: float) -> None:
        self._planner = planner
        self._poll_timeout = time_limit(poll_timeout, "poll_timeout")
        self._plan_to_cancel: str | None = None
        self._plan_id: str | None = None
        self._credentials: list[StorageCredential] = []
        self._tasks = self._all()

    @property
    def plan_id(self) -> str | None:
        """Id of the plan, or None before it is known. `load_credentials` accepts it."""
        return self._plan_id

    @property
    def storage_credentials(self) -> list[StorageCredential]:
        """Credentials of the completed plan. Empty before the first item."""
        return self._credentials

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Task:
        with convert_errors("the response is invalid", InvalidResponseError):
            try:
                return await self._tasks.__anext__()
            except StopAsyncIteration:
                pass
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the iteration and cancel the plan if the server still holds it."""
        await self._tasks.aclose()
        await self._cancel()

    async def _all(self) -> AsyncGenerator[Task, None]:
        try:
            plan = await self._completed_plan()
            self._credentials = plan.storage_credentials
            names = deque(plan.plan_tasks)
            seen = set(names)
            part: ScanTasks = plan
            while names:
                for task in resolve_tasks(part):
                    yield task
                part = await self._planner.tasks(names.popleft())
                if not seen.isdisjoint(part.plan_tasks):
                    raise InvalidResponseError("the server repeats a plan task", operation="plan_scan")
                seen.update(part.plan_tasks)
                names.extend(part.plan_tasks)
            # All tasks are fetched: there is nothing to cancel.
            self._plan_to_cancel = None
            for task in resolve_tasks(part):
                yield task
        finally:
            await self._cancel()

    async def _completed_plan(self) -> PlanResult:
        deadline = None if self._poll_timeout is None else time.monotonic() + self._poll_timeout
        delay = _FIRST_DELAY
        plan = await self._planner.plan()
        while True:
            self._plan_id = plan.plan_id or self._plan_id
            if plan.status == "failed":
                self._plan_to_cancel = None
                raise _plan_error(plan)
            if plan.status == "cancelled":
                self._plan_to_cancel = None
                raise PlanCancelledError("the plan was cancelled", operation="plan_scan")
            self._plan_to_cancel = self._plan_id
            if plan.status == "completed":
                return plan
            if deadline is not None and time.monotonic() + delay > deadline:
                raise PlanTimeoutError(
                    f"the plan was not completed within {self._poll_timeout:g} s", operation="plan_scan"
                )
            await self._planner.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY)
            plan = await self._planner.fetch(self._plan_id or "")

    async def _cancel(self) -> None:
        plan_id, self._plan_to_cancel = self._plan_to_cancel, None
        if plan_id is None:
            return
        try:
            await self._planner.cancel(plan_id)
        except CatalogError as error:
            HTTP.warning("cancelling a scan plan failed: %s", type(error).__name__)


class ScanPlan:
    """Iterator over the files of a scan, each with its delete files. Use it in one thread.

    The first request is sent with the first item. Leaving the `with` statement before the last item cancels the plan.
    """

    def __init__(self, plan: AsyncScanPlan) -> None:
        self._plan = plan

    @property
    def plan_id(self) -> str | None:
        """Id of the plan, or None before it is known. `load_credentials` accepts it."""
        return self._plan.plan_id

    @property
    def storage_credentials(self) -> list[StorageCredential]:
        """Credentials of the completed plan. Empty before the first item."""
        return self._plan.storage_credentials

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        try:
            return run(self._plan.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the iteration and cancel the plan if the server still holds it."""
        run(self._plan.aclose())


def resolve_tasks(part: ScanTasks) -> Iterator[Task]:
    """Yield the tasks of one response with the delete files that they reference by index."""
    deletes = part.delete_files
    for task in part.file_scan_tasks:
        numbers: Any = task.get("delete-file-references") or []
        is_valid = isinstance(numbers, list) and all(
            type(number) is int and 0 <= number < len(deletes) for number in numbers
        )
        if not is_valid:
            raise InvalidResponseError("a scan task references a delete file that is not in the response")
        yield task, [deletes[number] for number in numbers]


def _plan_error(plan: PlanResult) -> PlanFailedError:
    error = plan.error or CatalogError("scan planning failed")
    return PlanFailedError(
        error.message, type=error.type, code=error.code, stack=error.stack, operation="plan_scan", details=error.details
    )
