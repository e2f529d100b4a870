"""Runs a scan plan: polls the plan, fetches its plan tasks and cancels it if it is abandoned."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, Self, TypeAlias

from catalogclient._log import HTTP
from catalogclient._results import PlanResult, ScanTasks, StorageCredential
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

    def plan(self) -> PlanResult: ...

    def fetch(self, plan_id: str) -> PlanResult: ...

    def tasks(self, plan_task: str) -> ScanTasks: ...

    def cancel(self, plan_id: str) -> None: ...


class ScanPlan:
    """Iterator over the files of a scan, each with its delete files. Use it in one thread.

    The first request is sent with the first item. Leaving the `with` statement before the last item cancels the plan.
    """

    def __init__(self, planner: Planner, *, poll_timeout: float, pause: Callable[[float], object] = time.sleep) -> None:
        self._planner = planner
        self._poll_timeout = poll_timeout
        self._pause = pause
        self._held: str | None = None
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

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        return next(self._tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the iteration and cancels the plan if the server still holds it."""
        self._tasks.close()
        self._cancel()

    def _all(self) -> Generator[Task, None, None]:
        try:
            plan = self._completed_plan()
            self._credentials = plan.storage_credentials
            names = deque(plan.plan_tasks)
            part: ScanTasks = plan
            while names:
                yield from resolved(part)
                part = self._planner.tasks(names.popleft())
                names.extend(part.plan_tasks)
            # All tasks are fetched: there is nothing to cancel.
            self._held = None
            yield from resolved(part)
        finally:
            self._cancel()

    def _completed_plan(self) -> PlanResult:
        deadline = time.monotonic() + self._poll_timeout
        delay = _FIRST_DELAY
        plan = self._planner.plan()
        while True:
            self._plan_id = plan.plan_id or self._plan_id
            if plan.status == "failed":
                self._held = None
                raise _failed(plan)
            if plan.status == "cancelled":
                self._held = None
                raise PlanCancelledError("the plan was cancelled", operation="plan_scan")
            self._held = self._plan_id
            if plan.status == "completed":
                return plan
            if time.monotonic() + delay > deadline:
                raise PlanTimeoutError(
                    f"the plan was not completed within {self._poll_timeout:g} s", operation="plan_scan"
                )
            self._pause(delay)
            delay = min(2 * delay, _MAX_DELAY)
            plan = self._planner.fetch(self._held or "")

    def _cancel(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        try:
            self._planner.cancel(held)
        except CatalogError as error:
            HTTP.warning("cancelling a scan plan failed: %s", type(error).__name__)


def resolved(part: ScanTasks) -> Iterator[Task]:
    """Yields the tasks of one response with the delete files that they reference by index."""
    deletes = part.delete_files
    for task in part.file_scan_tasks:
        numbers: list[Any] = task.get("delete-file-references") or []
        if not all(isinstance(each, int) and 0 <= each < len(deletes) for each in numbers):
            raise InvalidResponseError("a scan task references a delete file that is not in the response")
        yield task, [deletes[each] for each in numbers]


def _failed(plan: PlanResult) -> PlanFailedError:
    error = plan.error or CatalogError("scan planning failed")
    return PlanFailedError(
        error.message, type=error.type, code=error.code, stack=error.stack, operation="plan_scan", details=error.details
    )
