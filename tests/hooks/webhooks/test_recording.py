"""The outbox: events are stored in the transaction of the change, and each is delivered to every subscriber."""

from __future__ import annotations

import contextlib
import threading
from uuid import uuid4

import orjson
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from authsvc import events
from authsvc.caller import Caller
from authsvc.events import ActorType, EventActor, EventType, RequestInfo
from hooks.models import WebhookDelivery, WebhookEvent
from hooks.webhooks import endpoints, queries, subscriptions
from hooks.webhooks.dispatcher import Dispatcher
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response
from tests.hooks.webhooks.deliveries import ADMIN, SECRET, deliver, make_endpoint, numbers, record, rows

URL = "https://hooks.example.com/"


class Cancelled(Exception):
    pass


@pytest.mark.django_db
def test_nothing_is_stored_while_webhooks_are_disabled(auth_config: ChangeConfig) -> None:
    make_endpoint(URL)
    auth_config(webhooks={"enabled": False})
    with CaptureQueriesContext(connection) as captured:
        assert not events.is_recorded(EventType.USER_CREATED)
        record(EventType.USER_CREATED, user_id=uuid4())
    assert [query["sql"] for query in captured if "webhook" in query["sql"]] == []
    assert WebhookEvent.objects.count() == 0


@pytest.mark.django_db
def test_an_event_without_subscriber_costs_no_statement() -> None:
    make_endpoint(URL, "user.*")
    events.is_recorded(EventType.USER_CREATED)
    with CaptureQueriesContext(connection) as captured:
        record(EventType.SESSION_STARTED)
    assert [query["sql"] for query in captured if "webhook" in query["sql"]] == []


@pytest.mark.django_db
def test_an_event_costs_one_statement() -> None:
    make_endpoint(URL, "session.started")
    events.is_recorded(EventType.SESSION_STARTED)
    with CaptureQueriesContext(connection) as captured:
        record(EventType.SESSION_STARTED, user_id=uuid4())
    assert len([query["sql"] for query in captured if "webhook" in query["sql"]]) == 1


@pytest.mark.django_db
def test_an_event_belongs_to_the_transaction_of_the_change() -> None:
    make_endpoint(URL)
    with contextlib.suppress(Cancelled), transaction.atomic():
        record()
        raise Cancelled
    assert WebhookEvent.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_an_event_needs_a_transaction() -> None:
    make_endpoint(URL)
    with pytest.raises(RuntimeError, match=r"user\.updated is not recorded in the transaction"):
        events.record(EventType.USER_UPDATED, actor=EventActor(type=ActorType.SYSTEM), request=None, at=timezone.now())


@pytest.mark.django_db
def test_the_document_names_actor_and_request() -> None:
    make_endpoint(URL)
    user_id = uuid4()
    with transaction.atomic():
        events.record(
            EventType.IDENTITY_LINKED,
            user_id=user_id,
            user=lambda: {"id": str(user_id), "email": "user@example.com"},
            data={"identity": {"id": "x", "identity_data": {"sub": "1"}}},
            actor=EventActor(type=ActorType.USER, id=user_id, role="authenticated"),
            request=RequestInfo(id="request-1", ip_address="203.0.113.7"),
            at=timezone.now(),
        )
    document = orjson.loads(bytes(WebhookEvent.objects.get().body))
    assert document["actor"] == {"type": "user", "id": str(user_id), "role": "authenticated"}
    assert document["request"] == {"id": "request-1", "ip_address": "203.0.113.7"}
    assert document["data"]["user"]["email"] == "user@example.com"
    assert document["data"]["identity"]["identity_data"] == {"sub": "1"}


@pytest.mark.django_db
def test_events_can_name_users_by_id_only(auth_config: ChangeConfig) -> None:
    auth_config(webhooks={"include_user": "ids"})
    make_endpoint(URL)
    user_id = uuid4()
    record(EventType.IDENTITY_LINKED, user_id=user_id, identity={"id": "x", "identity_data": {"sub": "1"}})
    document = orjson.loads(bytes(WebhookEvent.objects.get().body))
    assert document["data"] == {"user": {"id": str(user_id)}, "identity": {"id": "x"}}


@pytest.mark.django_db(transaction=True)
def test_an_event_is_delivered_although_its_process_dies(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    record(number=1)
    connection.close()  # nothing but the committed row is left

    deliver()

    assert numbers(receiver.received) == [1]


@pytest.mark.django_db(transaction=True)
def test_a_worker_delivers_until_it_is_stopped(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    stopping = threading.Event()
    worker = threading.Thread(target=Dispatcher().run, args=(stopping,))
    worker.start()
    try:
        record(number=1)
        receiver.wait_for_requests(1)
    finally:
        stopping.set()
        worker.join(60)
    assert not worker.is_alive()
    assert [row.status for row in rows()] == ["succeeded"]


@pytest.mark.django_db(transaction=True)
def test_results_survive_a_lost_connection(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    stopping, answered = threading.Event(), threading.Event()
    receiver.respond(Response(status=204, before=answered.wait))
    record(number=1)
    worker = threading.Thread(target=Dispatcher().run, args=(stopping,))
    worker.start()
    try:
        receiver.wait_for_requests(1)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        answered.set()
        while WebhookDelivery.objects.filter(status="pending").exists():
            threading.Event().wait(0.05)
    finally:
        answered.set()
        stopping.set()
        worker.join(60)
    assert [row.attempts for row in rows()] == [1]


@pytest.mark.django_db
def test_other_processes_learn_of_a_change_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("hooks.webhooks.subscriptions.time.monotonic", lambda: now[0])
    subscriptions.cache.clear()
    assert not subscriptions.is_subscribed("user.created")
    # Without a commit in this process, its cache is not cleared: as if another process created the endpoint.
    endpoints.create(url=URL, event_types=["*"], secret=SECRET, actor=ADMIN, caller=Caller(), at=timezone.now())
    assert not subscriptions.is_subscribed("user.created")
    now[0] += subscriptions.MAX_AGE + 1
    assert subscriptions.is_subscribed("user.created")


@pytest.mark.django_db
def test_deliveries_of_a_disabled_endpoint_are_cancelled(receiver: HttpPeer) -> None:
    created = make_endpoint(receiver.url)
    user_id = uuid4()
    for _ in range(3):
        record(user_id=user_id)
    with transaction.atomic():
        queries.fan_out(limit=10, at=timezone.now())
        queries.disable(created.endpoint.id, reason="manual", at=timezone.now())
        assert queries.cancel_deliveries(created.endpoint.id, limit=2) == 2
    # The first of the user is the last one to be cancelled.
    assert [(row.status, row.next_attempt_at is None) for row in rows()] == [
        ("pending", False),
        ("cancelled", True),
        ("cancelled", True),
    ]
