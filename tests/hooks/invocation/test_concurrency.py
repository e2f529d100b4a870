"""Limits of concurrent calls, and the slots of requests that wait for a hook."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import transaction

from authsvc.conf.sections.hooks import Hook
from authsvc.errors import ServiceBusy
from authsvc.outgoing import bulkhead
from hooks.errors import HookTimedOut
from hooks.invocation import concurrency
from tests.conftest import ChangeConfig
from tests.hooks.conftest import SetHook

pytestmark = pytest.mark.django_db(transaction=True)

HTTP, DATABASE = Hook.SEND_SMS, Hook.MFA_VERIFICATION_ATTEMPT
SHORT = timedelta(milliseconds=100)


class Slots:
    """The slots of a server; this thread serves one of four requests."""

    size = 4
    max_waiting_threads = 2

    def __init__(self) -> None:
        self.held = 1

    def reacquire(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


class OccupiedSlots(Slots):
    """The slots of a server whose threads may not wait."""

    max_waiting_threads = 0


@pytest.fixture
def slots(set_hook: SetHook) -> Iterator[Slots]:
    set_hook(HTTP, uri="https://hooks.example.com/", timeout=SHORT)
    set_hook(DATABASE, uri="pg-functions://postgres/public/f", timeout=SHORT)
    slots = Slots()
    bulkhead.set_slots(slots)
    yield slots
    bulkhead.set_slots(None)


@pytest.fixture
def occupied_slots(slots: Slots) -> Slots:
    occupied = OccupiedSlots()
    bulkhead.set_slots(occupied)
    return occupied


def occupy(hook: Hook, count: int, release: threading.Event) -> list[threading.Thread]:
    """Other requests that hold a reservation until `release`."""
    begun = threading.Semaphore(0)

    def hold() -> None:
        bulkhead.set_slots(Slots())
        with concurrency.reserve(hook):
            begun.release()
            release.wait(60)

    threads = [threading.Thread(target=hold) for _ in range(count)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=60)
    return threads


@pytest.fixture
def others(slots: Slots) -> Iterator[list[threading.Thread]]:
    """As many other requests as may keep their slot in a call."""
    release = threading.Event()
    threads = occupy(DATABASE, Slots.size // 2, release)
    yield threads
    release.set()
    for thread in threads:
        thread.join()


def test_a_call_over_http_leaves_the_slot(slots: Slots) -> None:
    with concurrency.call(HTTP):
        assert slots.held == 0
    assert slots.held == 1


def test_a_call_in_a_transaction_keeps_the_slot(slots: Slots) -> None:
    with concurrency.reserve(HTTP), transaction.atomic(), concurrency.call(HTTP):
        assert slots.held == 1
    assert slots.held == 1


def test_a_database_function_keeps_the_slot_with_its_connection(slots: Slots) -> None:
    with concurrency.call(DATABASE):
        assert slots.held == 1


@pytest.mark.usefixtures("others")
def test_half_of_the_slots_stay_for_other_requests(slots: Slots) -> None:
    for hook in (HTTP, DATABASE):
        with pytest.raises(HookTimedOut), concurrency.reserve(hook):
            pass
    with pytest.raises(HookTimedOut), concurrency.call(DATABASE):
        pass
    with concurrency.call(HTTP):  # it keeps no slot
        assert slots.held == 0
    assert slots.held == 1


@pytest.mark.usefixtures("others")
def test_an_unreserved_call_in_a_transaction_does_not_wait(slots: Slots, set_hook: SetHook) -> None:
    set_hook(HTTP, uri="https://hooks.example.com/", timeout=timedelta(seconds=30))
    with transaction.atomic(), pytest.raises(HookTimedOut), concurrency.call(HTTP):
        pass


def test_a_process_makes_sixteen_calls_at_a_time(set_hook: SetHook) -> None:
    set_hook(HTTP, uri="https://hooks.example.com/", timeout=SHORT)
    begun, release = threading.Semaphore(0), threading.Event()

    def call() -> None:
        with concurrency.call(HTTP):
            begun.release()
            release.wait(60)

    threads = [threading.Thread(target=call) for _ in range(16)]
    try:
        for thread in threads:
            thread.start()
        assert all(begun.acquire(timeout=60) for _ in threads)
        with pytest.raises(HookTimedOut), concurrency.call(HTTP):
            pass
    finally:
        release.set()
        for thread in threads:
            thread.join()
    with concurrency.call(HTTP):
        pass


def test_a_reservation_counts_once(slots: Slots, auth_config: ChangeConfig) -> None:
    auth_config(hook_calls={"max_concurrency": 1})
    with concurrency.reserve(HTTP), concurrency.reserve(DATABASE), transaction.atomic(), concurrency.call(HTTP):
        pass
    with concurrency.call(HTTP):
        pass


def test_the_wait_for_a_reservation_counts_as_time_of_the_call(
    slots: Slots, set_hook: SetHook, auth_config: ChangeConfig
) -> None:
    auth_config(hook_calls={"max_concurrency": 1})
    set_hook(HTTP, uri="https://hooks.example.com/", timeout=timedelta(seconds=30))
    release = threading.Event()
    [thread] = occupy(HTTP, 1, release)
    threading.Timer(0.5, release.set).start()
    with concurrency.reserve(HTTP), transaction.atomic(), concurrency.call(HTTP) as deadline:
        assert deadline < time.monotonic() + 30 - 0.1
    thread.join()


def test_calls_without_a_slot_leave_threads_to_other_requests(occupied_slots: Slots) -> None:
    with pytest.raises(ServiceBusy), concurrency.call(HTTP):
        pass
    assert occupied_slots.held == 1
    with concurrency.reserve(HTTP), transaction.atomic(), concurrency.call(HTTP):
        assert occupied_slots.held == 1


def test_too_many_waiting_requests(occupied_slots: Slots, auth_config: ChangeConfig) -> None:
    auth_config(hook_calls={"max_concurrency": 1})
    release = threading.Event()
    [thread] = occupy(HTTP, 1, release)
    try:
        with pytest.raises(ServiceBusy), concurrency.call(HTTP):
            pass
    finally:
        release.set()
        thread.join()
    assert occupied_slots.held == 1


def test_a_failure_ends_its_reservation(slots: Slots, auth_config: ChangeConfig) -> None:
    auth_config(hook_calls={"max_concurrency": 1})
    with pytest.raises(ZeroDivisionError), concurrency.reserve(HTTP):
        _ = 1 / 0
    with concurrency.call(HTTP):
        pass
