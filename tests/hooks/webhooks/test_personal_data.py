"""Events of deleted users: their personal data is removed."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import orjson
import pytest
from django.utils import timezone

from authsvc import personal_data
from authsvc.caller import Caller
from authsvc.events import EventType
from authsvc.jobs import cleanup
from authsvc.personal_data import DataSubject
from hooks.models import WebhookAttempt, WebhookEvent
from hooks.webhooks import endpoints, subscriptions
from tests.fakes.http_peer import HttpPeer, Response
from tests.hooks.webhooks.deliveries import ADMIN, backdate, deliver, make_endpoint, record, rows, statuses

pytestmark = pytest.mark.django_db

ADDRESS = "user@example.com"


def bodies() -> list[dict[str, object]]:
    return [orjson.loads(bytes(event.body)) for event in WebhookEvent.objects.order_by("sequence")]


def erase(user_id: UUID) -> dict[str, int]:
    subject = DataSubject(id=user_id)
    return {table: count for source in personal_data.sources for table, count in source.erase(subject).items()}


def clean_up() -> None:
    cleanup.run(at=timezone.now(), only_mandatory=True)


def test_events_of_a_deleted_user_lose_their_data_after_their_delivery(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    user_id = uuid4()
    receiver.respond(Response(status=200, body=ADDRESS.encode()))
    record(user_id=user_id)
    record(user_id=uuid4())
    deliver()
    receiver.respond(Response(status=500), Response(status=200, body=ADDRESS.encode()))
    record(user_id=user_id)
    deliver()
    first, *_ = bodies()
    record(EventType.USER_DELETED, user_id=user_id, soft=False)

    removed = erase(user_id)

    assert (removed["webhook_events"], removed["webhook_deliveries"]) == (1, 1)
    scrubbed, other, pending, deletion = bodies()
    assert scrubbed == {name: first[name] for name in ("id", "type", "timestamp", "sequence")} | {"scrubbed": True}
    assert [ADDRESS in str(body) for body in (other, pending, deletion)] == [True, True, True]
    assert heads_of(user_id) == []
    clean_up()
    assert bodies()[2:] == [pending, deletion]

    backdate(timedelta(minutes=1))
    deliver()
    clean_up()

    assert set(statuses()) == {"succeeded"}
    assert [request.json()["type"] for request in receiver.received][-2:] == ["user.updated", "user.deleted"]
    assert [ADDRESS in str(body) for body in bodies()] == [False, True, False, False]
    assert [row.user_id == user_id for row in rows()] == [False] * 4
    assert [event.user_id == user_id for event in WebhookEvent.objects.all()] == [False] * 4
    assert WebhookAttempt.objects.filter(response_head__contains=ADDRESS).count() == 1


def heads_of(user_id: UUID) -> list[str | None]:
    attempts = WebhookAttempt.objects.filter(delivery__user_id=user_id, delivery__status="succeeded")
    return [attempt.response_head for attempt in attempts]


def test_events_that_no_endpoint_receives_are_scrubbed(receiver: HttpPeer) -> None:
    created = make_endpoint(receiver.url)
    user_id = uuid4()
    record(user_id=user_id)
    endpoints.delete(str(created.endpoint.id), actor=ADMIN, caller=Caller(), at=timezone.now())
    subscriptions.cache.clear()
    erase(user_id)
    deliver()
    clean_up()
    assert bodies()[0]["scrubbed"] is True


def test_export_contains_the_events(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    user_id = uuid4()
    record(user_id=user_id)
    tables = dict(personal_data.export_tables(DataSubject(id=user_id)))
    document = "".join(
        personal_data.render_document(
            DataSubject(id=user_id), [("webhook_events", tables["webhook_events"])], exported_at="now"
        )
    )
    (row,) = orjson.loads(document)["held"]["webhook_events"]
    assert row["body"]["data"]["user"]["email"] == ADDRESS
