"""A scan planned by the server: waiting for the plan, following its tasks, and letting go of it."""

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

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0

Task: TypeAlias = tuple[FileScanTask, list[DeleteFile]]
"""A file to read, and the deletes that apply to it."""


class Planner(Protocol):
    """The operations on one table that a scan is made of."""

    def plan(self) -> PlanResult: ...

    def fetch(self, plan_id: str) -> PlanResult: ...

    def tasks(self, plan_task: str) -> ScanTasks: ...

    def cancel(self, plan_id: str) -> None: ...


class ScanPlan:
    """The files of a scan, each with its deletes, as an iterator that belongs to one thread.

    Nothing is asked before the first file is taken. Leaving the `with` statement before the last one tells the server
    that nobody waits any more.
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
        """The server's name for the plan, once there is one; credentials can be asked for with it."""
        return self._plan_id

    @property
    def storage_credentials(self) -> list[StorageCredential]:
        """Those that came with the finished plan: empty before the first file is taken."""
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
        """Stop, and cancel the plan if the server still holds it."""
        self._tasks.close()
        self._let_go()

    def _all(self) -> Generator[Task, None, None]:
        try:
            plan = self._finished()
            self._credentials = plan.storage_credentials
            names = deque(plan.plan_tasks)
            part: ScanTasks = plan
            while names:
                yield from resolved(part)
                part = self._planner.tasks(names.popleft())
                names.extend(part.plan_tasks)
            # The server has nothing more to tell, and so nothing to forget.
            self._held = None
            yield from resolved(part)
        finally:
            self._let_go()

    def _finished(self) -> PlanResult:
        give_up_at = time.monotonic() + self._poll_timeout
        pause = _FIRST_PAUSE
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
            if time.monotonic() + pause > give_up_at:
                raise PlanTimeoutError(f"no plan within {self._poll_timeout:g} s", operation="plan_scan")
            self._pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            plan = self._planner.fetch(self._held or "")

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        try:
            self._planner.cancel(held)
        except CatalogError as error:
            HTTP.warning("a plan could not be cancelled: %s", type(error).__name__)


def resolved(part: ScanTasks) -> Iterator[Task]:
    """The tasks of one answer with the delete files that they name by their place in the same answer."""
    deletes = part.delete_files
    for task in part.file_scan_tasks:
        numbers: list[Any] = task.get("delete-file-references") or []
        if not all(isinstance(each, int) and 0 <= each < len(deletes) for each in numbers):
            raise InvalidResponseError("a task names a delete file that is not in the answer")
        yield task, [deletes[each] for each in numbers]


def _failed(plan: PlanResult) -> PlanFailedError:
    error = plan.error or CatalogError("the server could not plan the scan")
    return PlanFailedError(
        error.message, type=error.type, code=error.code, stack=error.stack, operation="plan_scan", details=error.details
    )
