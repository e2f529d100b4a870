"""The requests that run at a time: their number, their order and their database connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import OperationalError, close_old_connections, connection, connections, transaction

from authsvc.api.exception_handler import is_unavailable
from authsvc.errors import ServiceBusy
from authsvc.outgoing import bulkhead
from authsvc.server.request_slots import RequestSlots
from tests.conftest import ChangeConfig

SECONDS = 60


class Task:
    """A task that runs until it is released."""

    def __init__(self, action: Callable[[], object] = lambda: None) -> None:
        self.has_started = threading.Event()
        self.has_ended = threading.Event()
        self._may_end = threading.Event()
        self._action = action

    def __call__(self) -> None:
        self.has_started.set()
        assert self._may_end.wait(SECONDS)
        try:
            self._action()
        finally:
            self.has_ended.set()

    def finish(self) -> None:
        self._may_end.set()
        assert self.has_ended.wait(SECONDS)


def test_tasks_beyond_the_slots_wait_in_order_without_a_thread() -> None:
    slots = RequestSlots(2)
    ended: SimpleQueue[int] = SimpleQueue()
    first = [Task(), Task()]
    for task in first:
        slots.submit(task)
        assert task.has_started.wait(SECONDS)
    threads = threading.active_count()
    later = [threading.Event() for _ in range(50)]
    for number, event in enumerate(later):

        def run(number: int = number, event: threading.Event = event) -> None:
            ended.put(number)
            event.set()

        slots.submit(run)
    assert threading.active_count() == threads
    assert ended.empty()

    first[0].finish()
    assert later[-1].wait(SECONDS)
    assert [ended.get() for _ in later] == list(range(50))
    first[1].finish()


@pytest.mark.parametrize("error", [ValueError, BaseException])
def test_a_failed_task_leaves_its_slot(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    slots = RequestSlots(1)

    def fail() -> None:
        raise error("the reason")

    has_run = threading.Event()
    slots.submit(fail)
    slots.submit(has_run.set)
    assert has_run.wait(SECONDS)
    assert "the reason" in caplog.text


def test_a_task_that_waits_for_another_server_leaves_its_slot() -> None:
    slots = RequestSlots(1)
    response, is_waiting = threading.Event(), threading.Event()
    ended = threading.Event()

    def wait() -> None:
        with bulkhead.wait_for("provider.example.com"):
            is_waiting.set()
            assert response.wait(SECONDS)
        ended.set()

    slots.submit(wait)
    assert is_waiting.wait(SECONDS)
    other = Task()
    slots.submit(other)
    assert other.has_started.wait(SECONDS)
    # The response arrives while the slot is taken.
    response.set()
    assert not ended.wait(0.05)
    other.finish()
    assert ended.wait(SECONDS)


def test_a_request_that_returns_to_its_slot_precedes_those_that_have_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = RequestSlots(1)
    response, is_waiting, returns = threading.Event(), threading.Event(), threading.Event()
    ended: SimpleQueue[str] = SimpleQueue()
    reacquire = slots.reacquire

    def reacquire_and_tell() -> None:
        returns.set()
        reacquire()

    monkeypatch.setattr(slots, "reacquire", reacquire_and_tell)

    def wait() -> None:
        with bulkhead.wait_for("provider.example.com"):
            is_waiting.set()
            assert response.wait(SECONDS)
        ended.put("returned")

    slots.submit(wait)
    assert is_waiting.wait(SECONDS)
    running = Task()
    slots.submit(running)
    assert running.has_started.wait(SECONDS)
    for _ in range(2):
        slots.submit(lambda: ended.put("begun"))
    response.set()
    assert returns.wait(SECONDS)
    time.sleep(0.1)  # until it waits for the slot
    running.finish()
    assert [ended.get(timeout=SECONDS) for _ in range(3)] == ["returned", "begun", "begun"]


def test_requests_that_return_again_and_again_let_others_begin() -> None:
    slots = RequestSlots(1)
    may_end, has_begun, count = threading.Event(), threading.Event(), 0

    def stream() -> None:
        nonlocal count
        deadline = time.monotonic() + SECONDS
        while not may_end.is_set() and time.monotonic() < deadline:
            time.sleep(0.002)  # writes the next part of a response
            with bulkhead.leave_slot():
                count += 1

    for _ in range(3):
        slots.submit(stream)
    while count < 10:
        time.sleep(0.001)
    slots.submit(has_begun.set)
    begins = has_begun.wait(SECONDS / 12)
    may_end.set()
    assert begins


@pytest.mark.parametrize("servers", [1, 2])
def test_waiting_requests_are_limited_in_total_and_per_server(servers: int) -> None:
    slots = RequestSlots(1)
    response = threading.Event()
    started: SimpleQueue[bool] = SimpleQueue()
    ended: SimpleQueue[bool] = SimpleQueue()

    def wait(name: str) -> None:
        try:
            with bulkhead.wait_for(name):
                started.put(True)
                assert response.wait(SECONDS)
        except ServiceBusy:
            started.put(False)
        ended.put(True)

    count = 2 * bulkhead.MAX_WAITING
    for number in range(count):
        slots.submit(lambda number=number: wait(f"{number % servers}.example.com"))  # type: ignore[misc]
    assert sum(started.get(timeout=SECONDS) for _ in range(count)) == servers * bulkhead.MAX_WAITING_PER_SERVER
    response.set()
    for _ in range(count):
        ended.get(timeout=SECONDS)


@pytest.mark.django_db(transaction=True)
def test_connections_belong_to_slots_and_not_to_threads() -> None:
    slots = RequestSlots(2)
    pids: SimpleQueue[int] = SimpleQueue()

    def backend() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.put(cursor.fetchone()[0])

    def wait() -> None:
        backend()
        with bulkhead.wait_for("provider.example.com"):
            assert not connections.all(initialized_only=True)
        backend()

    for _ in range(20):
        slots.submit(wait)
    assert len({pids.get(timeout=SECONDS) for _ in range(40)}) <= 2
    slots.resize(0)


@pytest.mark.django_db(transaction=True)
def test_fewer_slots_close_connections_and_more_admit_waiting_requests() -> None:
    slots = RequestSlots(2)
    tasks = [Task(connection.ensure_connection) for _ in range(3)]
    for task in tasks[:2]:
        slots.submit(task)
        assert task.has_started.wait(SECONDS)
    slots.resize(1)
    slots.submit(tasks[2])
    tasks[0].finish()
    assert not tasks[2].has_started.is_set()
    slots.resize(2)
    assert tasks[2].has_started.wait(SECONDS)
    for task in tasks[1:]:
        task.finish()
    slots.resize(0)


class ThreadLimit:
    """The system permits no further threads while `is_reached`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reached = False
        start = threading.Thread.start

        def start_within_limit(thread: threading.Thread) -> None:
            if self.is_reached:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_within_limit)


@pytest.fixture
def thread_limit(monkeypatch: pytest.MonkeyPatch) -> ThreadLimit:
    return ThreadLimit(monkeypatch)


def test_a_request_without_a_thread_takes_no_slot_and_is_not_lost(thread_limit: ThreadLimit) -> None:
    slots = RequestSlots(2)
    tasks = [Task(), Task(), Task()]
    thread_limit.is_reached = True
    slots.submit(tasks[0])
    slots.submit(tasks[1])
    thread_limit.is_reached = False
    slots.submit(tasks[2])
    for task in tasks[:2]:
        assert task.has_started.wait(SECONDS)
    assert slots.are_taken
    for task in tasks:
        task.finish()


def test_started_threads_serve_all_requests(thread_limit: ThreadLimit) -> None:
    slots = RequestSlots(2)
    slots.start_threads()
    thread_limit.is_reached = True
    tasks = [Task() for _ in range(4)]
    for task in tasks:
        slots.submit(task)
    for task in tasks[:2]:
        assert task.has_started.wait(SECONDS)
    for task in tasks:
        task.finish()


def test_a_request_runs_once_a_thread_has_ended_its_wait_for_another_server(thread_limit: ThreadLimit) -> None:
    slots = RequestSlots(1)
    slots.start_threads()
    thread_limit.is_reached = True
    response, is_waiting = threading.Event(), threading.Event()

    def wait() -> None:
        with bulkhead.wait_for("provider.example.com"):
            is_waiting.set()
            assert response.wait(SECONDS)

    slots.submit(wait)
    others = [Task(), Task()]
    slots.submit(others[0])
    assert is_waiting.wait(SECONDS)
    slots.submit(others[1])
    response.set()
    for other in others:
        other.finish()


def test_a_request_with_a_thread_does_not_wait_for_one_without(
    thread_limit: ThreadLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = RequestSlots(1)
    waits, responses, runs = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)], Task()
    returned, resumed = threading.Event(), threading.Event()
    reacquire = slots.reacquire

    def reacquire_and_tell() -> None:
        returned.set()
        reacquire()

    monkeypatch.setattr(slots, "reacquire", reacquire_and_tell)

    def call_first() -> None:
        with bulkhead.wait_for("provider.example.com"):
            waits[0].set()
            assert responses[0].wait(SECONDS)
        resumed.set()

    def call_second() -> None:
        runs()
        with bulkhead.wait_for("hook.example.com"):
            waits[1].set()
            assert responses[1].wait(SECONDS)

    slots.submit(call_first)
    assert waits[0].wait(SECONDS)
    slots.submit(call_second)
    assert runs.has_started.wait(SECONDS)
    thread_limit.is_reached = True
    without_thread = Task()
    slots.submit(without_thread)
    responses[0].set()
    assert returned.wait(SECONDS)
    time.sleep(0.1)  # until the first request waits for the slot
    runs.finish()
    assert resumed.wait(SECONDS)
    responses[1].set()
    without_thread.finish()


def test_a_further_slot_without_a_thread_delays_a_request(thread_limit: ThreadLimit) -> None:
    slots = RequestSlots(1)
    slots.start_threads()
    thread_limit.is_reached = True
    tasks = [Task(), Task()]
    for task in tasks:
        slots.submit(task)
    slots.resize(2)
    assert not tasks[1].has_started.is_set()
    for task in tasks:
        task.finish()


def test_threads_of_a_server_wait_for_a_slot() -> None:
    slots = RequestSlots(2)
    running: list[int] = []
    observed: list[int] = []
    start = threading.Barrier(8)

    def run() -> None:
        start.wait(SECONDS)
        with slots.hold():
            running.append(1)
            observed.append(len(running))
            running.pop()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(observed) == 8
    assert max(observed) <= 2


def test_outside_of_requests_calls_to_other_servers_are_not_limited() -> None:
    for _ in range(2 * bulkhead.MAX_WAITING):
        with bulkhead.wait_for("provider.example.com"):
            """A job."""


@pytest.mark.django_db(transaction=True)
def test_a_request_does_not_wait_forever_for_the_database(auth_config: ChangeConfig) -> None:
    auth_config(api={"max_request_duration": timedelta(milliseconds=100)})
    outcomes: list[object] = []

    def ask(statement: str) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                outcomes.append(cursor.fetchone())
        except OperationalError as error:
            outcomes.append(str(error))
            connection.close_if_unusable_or_obsolete()

    slots = RequestSlots(1)
    for statement in ("SELECT pg_sleep(2)", "SELECT 1"):
        task = Task(partial(ask, statement))
        slots.submit(task)
        assert task.has_started.wait(SECONDS)
        task.finish()
    slots.resize(0)
    assert outcomes == ["the server has not answered for 1.1 s", (1,)]
    # The server runs the statement to its end, which would disturb other tests.
    running = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(2)' AND state = 'active'"
    with connection.cursor() as cursor:
        while True:
            cursor.execute(running)
            if cursor.fetchone() == (0,):
                break
            time.sleep(0.05)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("of_role", "expected"), [("0", "100ms"), ("7s", "7s")])
def test_a_request_waits_for_a_lock_for_a_quarter_of_its_time(
    auth_config: ChangeConfig, of_role: str, expected: str
) -> None:
    auth_config(api={"max_request_duration": timedelta(milliseconds=400)})
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    seen: list[object] = []

    def read_limit() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            seen.append(cursor.fetchone())

    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET lock_timeout = '{of_role}'")
    try:
        slots = RequestSlots(1)
        task = Task(read_limit)
        slots.submit(task)
        task.finish()
        slots.resize(0)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {name} RESET lock_timeout")
    assert seen == [(expected,)]


@pytest.mark.django_db(transaction=True)
def test_a_changed_time_of_requests_applies_to_locks_at_once(auth_config: ChangeConfig) -> None:
    seen: list[Any] = []

    def read_limit() -> None:
        close_old_connections()  # as at the start of each request
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout'), pg_backend_pid()")
            seen.append(cursor.fetchone())

    slots = RequestSlots(1)
    for milliseconds in (400, 400, 800):
        auth_config(api={"max_request_duration": timedelta(milliseconds=milliseconds)})
        task = Task(read_limit)
        slots.submit(task)
        task.finish()
    slots.resize(0)
    assert [limit for limit, _ in seen] == ["100ms", "100ms", "200ms"]
    assert seen[0] == seen[1]


@pytest.mark.django_db(transaction=True)
def test_a_request_whose_table_stays_locked_can_be_repeated(auth_config: ChangeConfig) -> None:
    auth_config(api={"max_request_duration": timedelta(milliseconds=400)})
    outcomes: list[object] = []

    def read_users() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT id FROM users")
        except OperationalError as error:
            outcomes.append(is_unavailable(error))
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            outcomes.append(cursor.fetchone())

    slots = RequestSlots(1)
    task = Task(read_users)
    slots.submit(task)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK users")
        task.finish()
    slots.resize(0)
    assert outcomes == [True, (1,)]
