"""Events that are recorded, and deliveries that are created and stored, at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from authsvc import events
from authsvc.events import EventType
from hooks.models import WebhookDelivery
from hooks.webhooks import dispatcher as dispatcher_module
from hooks.webhooks import queries
from hooks.webhooks.dispatcher import Dispatcher
from tests.fakes.http_peer import HttpPeer, Response
from tests.hooks.webhooks.deliveries import deliver, make_endpoint, numbers, record, rows

pytestmark = pytest.mark.django_db(transaction=True)


def test_events_that_commit_late_are_delivered(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    events.is_recorded(EventType.USER_UPDATED)
    recorded, committing = threading.Event(), threading.Event()

    def record_slowly() -> None:
        try:
            with transaction.atomic():
                record(number=1)
                recorded.set()
                committing.wait(60)
        finally:
            connection.close()

    slow = threading.Thread(target=record_slowly)
    slow.start()
    recorded.wait(60)
    record(number=2)
    deliver()
    assert numbers(receiver.received) == [2]
    committing.set()
    slow.join()

    deliver()

    assert numbers(receiver.received) == [2, 1]


def test_two_workers_deliver_once_each_and_in_order(receiver: HttpPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "POLL_SECONDS", 0.0)
    make_endpoint(receiver.url)
    receiver.respond(*[Response(status=status) for status in (204, 500, 204, 204, 503, 204)])
    users = [uuid4() for _ in range(5)]
    for number in range(10):
        for user_id in users:
            record(user_id=user_id, number=number)

    def work() -> None:
        try:
            dispatcher = Dispatcher()
            while WebhookDelivery.objects.filter(status="pending").exists() or queries.has_new_events():
                dispatcher.step()
                dispatcher.collect(seconds=0.05)
                # A failed attempt is repeated at once.
                WebhookDelivery.objects.filter(status="pending", leased_until=None, attempts__gt=0).exclude(
                    next_attempt_at=None
                ).update(next_attempt_at=timezone.now())
            dispatcher.finish()
        finally:
            connection.close()

    in_parallel(work, work)

    assert {row.status for row in rows()} == {"succeeded"}
    assert len(receiver.received) == 50 + 2
    for user_id in users:
        arrived = [
            request.json()["data"]["number"]
            for request in receiver.received
            if request.json()["data"]["user"]["id"] == str(user_id)
        ]
        assert list(dict.fromkeys(arrived)) == list(range(10))
        assert arrived == sorted(arrived)


def in_parallel(*functions: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


def test_the_next_delivery_is_released_while_new_ones_are_created(receiver: HttpPeer) -> None:
    """A result waits for the creation of deliveries, which may not see it, and then sees the new ones."""
    make_endpoint(receiver.url)
    user_id = uuid4()
    record(user_id=user_id, number=1)
    with transaction.atomic():
        queries.fan_out(limit=10, at=timezone.now())
    endpoint_id = rows()[0].endpoint_id
    (lease,) = queries.lease(limits={endpoint_id: 1}, limit=1, at=timezone.now(), duration=timedelta(seconds=30))
    record(user_id=user_id, number=2)
    result = queries.StoredResult(
        id=lease.id, attempt=1, outcome="succeeded", next_attempt_at=None, started_at=timezone.now(), duration_ms=1,
        status=200, error=None, head=None,
    )  # fmt: skip

    def store() -> None:
        try:
            with transaction.atomic():
                queries.store_results([result], at=timezone.now())
        finally:
            connection.close()

    storing = threading.Thread(target=store)
    with transaction.atomic():
        queries.fan_out(limit=10, at=timezone.now())
        storing.start()
        storing.join(0.2)  # it waits for this transaction
    storing.join(60)

    first, second = rows()
    assert (first.status, second.status) == ("succeeded", "pending")
    assert second.next_attempt_at is not None
