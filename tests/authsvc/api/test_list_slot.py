"""Lists run one at a time, and other requests run concurrently."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connection

from authsvc.api import throttling
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session, make_user
from tests.timeouts import TIMEOUT_SECONDS, wait_until

Start = Callable[[Callable[[], int]], "Future[int]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a function in a separate thread."""
    with ThreadPoolExecutor(8) as threads:
        yield threads.submit


class OccupiedSlot:
    """The slot for lists, occupied until `release`, and the number of requests for it since."""

    def __init__(self) -> None:
        self._holder = contextlib.ExitStack()
        self._holder.enter_context(throttling.list_slot())
        self.requested = 0

    def release(self) -> None:
        self._holder.close()


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch) -> Iterator[OccupiedSlot]:
    """The occupied slot; lists wait for it as long as the test needs."""
    slot, acquire = OccupiedSlot(), threading.Semaphore.acquire

    def count_lists(semaphore: threading.Semaphore, blocking: bool = True, timeout: float | None = None) -> bool:
        slot.requested += timeout == TIMEOUT_SECONDS
        return acquire(semaphore, blocking, timeout)

    monkeypatch.setattr(throttling, "LIST_WAIT_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr(threading.Semaphore, "acquire", count_lists)
    yield slot
    slot.release()


def get(path: str, bearer: str = "") -> int:
    """The status of a request in a thread."""
    try:
        return Api().get(path, bearer=bearer or admin_requests.token()).status_code
    finally:
        connection.close()


def test_one_list_runs_at_a_time(start: Start) -> None:
    running: list[int] = []
    most: list[int] = []

    def run() -> int:
        with throttling.list_slot():
            running.append(1)
            most.append(len(running))
            time.sleep(0.01)
            running.pop()
        return 0

    for future in [start(run) for _ in range(8)]:
        future.result(TIMEOUT_SECONDS)
    assert most == [1] * 8


def run_list() -> int:
    with throttling.list_slot():
        return 1


def test_a_list_that_waited_does_not_release_the_slot_of_another(start: Start) -> None:
    with throttling.list_slot():
        assert start(run_list).result(TIMEOUT_SECONDS) == 1
    assert start(run_list).result(TIMEOUT_SECONDS) == 1


def test_a_failed_list_releases_the_slot(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError), throttling.list_slot():
        raise KeyError
    monkeypatch.setattr(throttling, "LIST_WAIT_SECONDS", TIMEOUT_SECONDS)
    assert start(run_list).result(TIMEOUT_SECONDS / 2) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "by_cursor"),
    [
        ("/admin/users", False),
        ("/admin/users", True),
        ("/admin/users?page=2&per_page=1", False),
        ("/admin/users?filter=ann", False),
        ("/admin/users?filter=ann", True),
        ("/admin/audit", False),
    ],
)
def test_other_requests_are_served_while_a_list_waits(
    auth_config: ChangeConfig, start: Start, slot: OccupiedSlot, path: str, by_cursor: bool
) -> None:
    auth_config(experimental={"cursor_pagination_enabled": by_cursor})
    user = make_session().access_token
    list_request = start(lambda: get(path))
    wait_until(lambda: slot.requested == 1, "a list that waits for the slot")
    assert start(lambda: get("/user", bearer=user)).result(TIMEOUT_SECONDS) == 200
    assert not list_request.done()
    slot.release()
    assert list_request.result(TIMEOUT_SECONDS) == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by_cursor", [False, True])
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("email=ann@example.com", 200),
        ("phone=15550001", 200),
        ("id=7c9d2a0e-6f0f-4d0e-9c11-0c5a8d0a2f11", 200),
        ("email=ann@example.com&filter=ann", 200),
        ("sort=age", 400),
        ("page=two", 400),
    ],
)
def test_a_search_for_one_user_and_an_invalid_request_need_no_slot(
    auth_config: ChangeConfig, slot: OccupiedSlot, query: str, status: int, by_cursor: bool
) -> None:
    auth_config(experimental={"cursor_pagination_enabled": by_cursor})
    assert Api().get(f"/admin/users?{query}", bearer=admin_requests.token()).status_code == status
    assert slot.requested == 0


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_a_list_waits(start: Start, slot: OccupiedSlot) -> None:
    # The session of this administrator is read before the list waits.
    administrator = make_session(make_user(role="svc_admin")).access_token
    list_request = start(lambda: get("/admin/users", bearer=administrator))
    wait_until(lambda: slot.requested == 1, "a list that waits for the slot")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
            " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        )
        assert cursor.fetchone() == (0,)
    slot.release()
    assert list_request.result(TIMEOUT_SECONDS) == 200
