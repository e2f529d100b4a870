"""Order of deliveries, leases of workers, and limits of attempts at a time."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from hooks.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from hooks.webhooks import queries
from hooks.webhooks.dispatcher import Dispatcher
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response
from tests.hooks.webhooks.deliveries import backdate, deliver, make_endpoint, numbers, record, rows, statuses

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


class TestOrder:
    """Deliveries of one user to one endpoint follow each other."""

    def test_events_of_a_user_wait_for_the_earlier_ones(self, receiver: HttpPeer) -> None:
        make_endpoint(receiver.url)
        user_id, other_id = uuid4(), uuid4()
        receiver.respond(Response(status=500), Response(status=200))
        record(user_id=user_id, number=1)
        deliver()
        record(user_id=user_id, number=2)
        record(user_id=user_id, number=3)
        record(user_id=other_id, number=4)
        record(number=5)
        deliver()
        assert sorted(numbers(receiver.received)) == [1, 4, 5]

        backdate(timedelta(seconds=7))
        deliver()

        assert [number for number in numbers(receiver.received) if number <= 3] == [1, 1, 2, 3]
        assert set(statuses()) == {"succeeded"}

    def test_a_failed_delivery_does_not_hold_up_the_next(self, receiver: HttpPeer, auth_config: ChangeConfig) -> None:
        auth_config(webhooks={"retry_schedule": ()})
        make_endpoint(receiver.url)
        user_id = uuid4()
        receiver.respond(Response(status=500), Response(status=200))
        record(user_id=user_id, number=1)
        record(user_id=user_id, number=2)

        deliver()

        assert statuses() == ["failed", "succeeded"]

    def test_endpoints_do_not_wait_for_each_other(self, receiver: HttpPeer) -> None:
        make_endpoint(f"{receiver.url}/down")
        make_endpoint(f"{receiver.url}/up")
        receiver.respond(Response(status=500), path="/down")
        user_id = uuid4()
        for number in range(3):
            record(user_id=user_id, number=number)

        deliver()

        assert numbers([request for request in receiver.received if request.path == "/up"]) == [0, 1, 2]
        assert numbers([request for request in receiver.received if request.path == "/down"]) == [0]


class TestLeases:
    def test_the_deliveries_of_a_killed_worker_are_taken_over(self, receiver: HttpPeer) -> None:
        make_endpoint(receiver.url)
        record()
        with transaction.atomic():
            queries.fan_out(limit=10, at=timezone.now())
        endpoint_id = WebhookEndpoint.objects.get().id
        limits = {endpoint_id: 2}
        killed = queries.lease(limits=limits, limit=4, at=timezone.now(), duration=timedelta(seconds=30))
        assert len(killed) == 1

        deliver()
        assert receiver.received == []
        backdate(timedelta(seconds=31))
        deliver()

        (row,) = rows()
        assert (row.status, row.attempts) == ("succeeded", 2)

    def test_the_result_of_a_lease_that_was_taken_over_is_dropped(self, receiver: HttpPeer) -> None:
        make_endpoint(receiver.url)
        record()
        with transaction.atomic():
            queries.fan_out(limit=10, at=timezone.now())
        limits = {WebhookEndpoint.objects.get().id: 1}
        (late,) = queries.lease(limits=limits, limit=4, at=timezone.now(), duration=timedelta(seconds=30))
        backdate(timedelta(seconds=31))
        (current,) = queries.lease(limits=limits, limit=4, at=timezone.now(), duration=timedelta(seconds=30))
        result = queries.StoredResult(
            id=late.id, attempt=late.attempt, outcome="failed", next_attempt_at=None, started_at=timezone.now(),
            duration_ms=1, status=500, error=None, head=None,
        )  # fmt: skip

        with transaction.atomic():
            queries.store_results([result], at=timezone.now())

        assert statuses() == ["pending"]
        assert (current.attempt, WebhookAttempt.objects.count()) == (2, 0)


class TestConcurrency:
    def test_a_slow_endpoint_does_not_delay_others(self, receiver: HttpPeer) -> None:
        make_endpoint(f"{receiver.url}/hangs")
        make_endpoint(f"{receiver.url}/answers")
        release = threading.Event()
        receiver.respond(Response(status=204, before=release.wait), path="/hangs")
        for number in range(6):
            record(number=number)
        dispatcher = Dispatcher()
        try:
            dispatcher.step()
            while sum(row.status == "succeeded" for row in rows()) < 6:
                dispatcher.collect(seconds=60)
                dispatcher.step()
            receiver.wait_for_requests(8)
            hanging = [request for request in receiver.received if request.path == "/hangs"]
            assert len(hanging) == 2  # the limit of one endpoint
        finally:
            release.set()
            dispatcher.finish()

    def test_endpoints_that_fail_share_half_of_the_attempts(
        self, receiver: HttpPeer, auth_config: ChangeConfig
    ) -> None:
        for number in range(4):
            make_endpoint(f"{receiver.url}/{number}")
        receiver.respond(Response(status=500))
        record()
        record()
        dispatcher = Dispatcher()
        for concurrency in (8, 4):
            auth_config(webhooks={"concurrency": concurrency})
            backdate(timedelta(seconds=7))
            dispatcher.step()
            dispatcher.finish()

        assert len(receiver.received) == 8 + 2
        assert len({request.path for request in receiver.received[8:]}) == 2


def test_events_that_wait_do_not_make_the_search_longer(receiver: HttpPeer) -> None:
    """A user with many waiting deliveries, whose first one is not due: the index leads past them."""
    make_endpoint(receiver.url)
    user_id = uuid4()
    for _ in range(200):
        record(user_id=user_id)
    with transaction.atomic():
        queries.fan_out(limit=500, at=timezone.now())
    WebhookDelivery.objects.filter(next_attempt_at__isnull=False).update(next_attempt_at=timezone.now() + DAY)
    endpoint_id = WebhookEndpoint.objects.get().id
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT id FROM {queries.DELIVERIES} WHERE endpoint_id = %s"
            " AND status = 'pending' AND next_attempt_at <= %s ORDER BY next_attempt_at LIMIT 2",
            [endpoint_id, timezone.now()],
        )
        plan = str(cursor.fetchone())
    assert "webhook_deliveries_due_idx" in plan
    assert "Rows Removed by Filter" not in plan
