"""Delivery of events: requests, retries, disabled endpoints, permitted addresses."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from uuid import uuid4

import pytest
from django.utils import timezone
from standardwebhooks import Webhook

from authsvc.conf import Secret
from authsvc.events import EventType
from authsvc.outgoing import connections
from hooks.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookEvent
from hooks.webhooks import queries, sending, subscriptions
from hooks.webhooks.dispatcher import Dispatcher
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response, redirect
from tests.hooks.webhooks.deliveries import SECRET, backdate, deliver, make_endpoint, record, rows, statuses
from tests.recorded_metrics import RecordedMetrics

pytestmark = pytest.mark.django_db


def test_the_request_is_signed_and_contains_the_stored_event(receiver: HttpPeer) -> None:
    make_endpoint(f"{receiver.url}/hooks")
    user_id = uuid4()
    record(user_id=user_id, changed=["email"])

    deliver()

    (request,) = receiver.received
    event = WebhookEvent.objects.get()
    assert (request.method, request.path, request.body) == ("POST", "/hooks", bytes(event.body))
    assert request.headers["webhook-id"] == f"evt_{event.id}"
    assert request.headers["webhook-attempt"] == "1"
    assert request.headers["User-Agent"].startswith("authsvc-webhooks/")
    assert request.headers["Content-Type"] == "application/json"
    assert abs(int(request.headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    assert Webhook(SECRET).verify(request.body, dict(request.headers)) == {
        "id": f"evt_{event.id}",
        "type": "user.updated",
        "timestamp": event.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "sequence": event.sequence,
        "api_version": "2026-01-01",
        "actor": {"type": "system", "id": None, "role": ""},
        "request": None,
        "data": {"user": {"id": str(user_id), "email": "user@example.com"}, "changed": ["email"]},
    }
    (row,) = rows()
    assert (row.status, row.attempts, row.last_status, row.next_attempt_at) == ("succeeded", 1, 204, None)


def test_only_subscribed_types_are_delivered(receiver: HttpPeer) -> None:
    make_endpoint(f"{receiver.url}/users", "user.*")
    make_endpoint(f"{receiver.url}/sessions", "session.started", "session.revoked")
    record(EventType.USER_CREATED)
    record(EventType.SESSION_UPGRADED)
    record(EventType.SESSION_REVOKED)

    deliver()

    assert sorted((request.path, request.json()["type"]) for request in receiver.received) == [
        ("/sessions", "session.revoked"),
        ("/users", "user.created"),
    ]


def pause(row: WebhookDelivery) -> timedelta:
    """The time until the next attempt."""
    assert row.next_attempt_at is not None
    return row.next_attempt_at - timezone.now()


def test_a_failed_attempt_is_repeated_with_the_same_id_and_body(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    receiver.respond(Response(status=500), Response(status=500), Response(status=200))
    record()

    deliver()
    (row,) = rows()
    assert (row.status, row.last_status, row.last_error) == ("pending", 500, "status 500")
    assert timedelta(seconds=3) < pause(row) < timedelta(seconds=7)
    backdate(timedelta(seconds=7))
    deliver()
    (row,) = rows()
    assert timedelta(minutes=3) < pause(row) < timedelta(minutes=7)
    backdate(timedelta(minutes=7))
    deliver()

    assert statuses() == ["succeeded"]
    assert [request.headers["webhook-attempt"] for request in receiver.received] == ["1", "2", "3"]
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
    assert len({request.body for request in receiver.received}) == 1
    assert [attempt.status for attempt in WebhookAttempt.objects.order_by("id")] == [500, 500, 200]


def test_the_delivery_fails_after_the_schedule(receiver: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(webhooks={"retry_schedule": (timedelta(seconds=1),)})
    make_endpoint(receiver.url)
    receiver.respond(Response(status=500))
    record()

    deliver()
    backdate(timedelta(seconds=2))
    deliver()

    (row,) = rows()
    assert (row.status, row.attempts, row.next_attempt_at) == ("failed", 2, None)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_delays_the_next_attempt(status: int, receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    receiver.respond(Response(status=status, headers={"Retry-After": "120"}))
    record()

    deliver()

    (row,) = rows()
    assert row.status == "pending"
    assert timedelta(seconds=60) < pause(row) <= timedelta(seconds=120)


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        (503, "17", 17),
        (429, "in two hours", 7200),
        (503, "999999999999999999", 86_400),
        (503, "Wed, 21 Oct 2015 07:28:00 GMT", 0),
        (503, "Wed, 21 Oct 2915 07:28:00 GMT", 86_400),
        (503, "-5", 0),
        (503, "soon", 0),
        (503, "Wed, 99999999999999999999 Oct 2915 07:28:00 GMT", 0),
        (503, "", 0),
        (500, "17", 0),
    ],
)
def test_retry_after_is_a_number_or_a_date(status: int, text: str, seconds: int, receiver: HttpPeer) -> None:
    if text == "in two hours":
        text = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    receiver.respond(Response(status=status, headers={"Retry-After": text}))
    message = sending.WebhookMessage(
        event_id=uuid4(), attempt=1, url=receiver.url, secrets=[Secret(f"v1,{SECRET}")], body=b"{}"
    )

    result = sending.attempt(message, timeout=timedelta(seconds=30), public_only=False)

    assert (
        abs(result.retry_after.total_seconds() - seconds) < 60
        if seconds > 60
        else (result.retry_after.total_seconds() == seconds)
    )


def test_an_endpoint_that_is_gone_is_disabled(receiver: HttpPeer, recorded: RecordedMetrics) -> None:
    make_endpoint(receiver.url)
    receiver.respond(Response(status=410))
    record(number=1)
    record(number=2)

    deliver()

    endpoint = WebhookEndpoint.objects.get()
    assert (endpoint.disabled_reason, endpoint.disabled_at is None) == ("gone", False)
    assert "failed" in statuses()
    assert set(statuses()) <= {"failed", "cancelled"}


def test_an_endpoint_that_fails_for_long_is_disabled(
    receiver: HttpPeer, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    auth_config(webhooks={"disable_after": timedelta(hours=1)})
    make_endpoint(receiver.url)
    receiver.respond(Response(status=500))
    user_id = uuid4()
    record(user_id=user_id)
    record(user_id=user_id)
    deliver()
    assert WebhookEndpoint.objects.get().failing_since is not None

    backdate(timedelta(hours=2))
    deliver()

    assert WebhookEndpoint.objects.get().disabled_reason == "failing"
    assert statuses() == ["cancelled", "cancelled"]
    assert "webhook endpoint disabled" in caplog.text


def test_an_endpoint_enabled_by_another_process_keeps_its_deliveries(receiver: HttpPeer) -> None:
    endpoint_id = make_endpoint(receiver.url).endpoint.id
    record()
    queries.disable(endpoint_id, reason="manual", at=timezone.now())
    subscriptions.cache.clear()
    assert subscriptions.cache.get()[0].is_disabled
    WebhookEndpoint.objects.update(disabled_at=None, disabled_reason=None)

    Dispatcher()._search()

    assert statuses() == ["pending"]


def test_an_endpoint_that_another_worker_has_reached_is_not_disabled(
    receiver: HttpPeer, auth_config: ChangeConfig
) -> None:
    auth_config(webhooks={"disable_after": timedelta(hours=1)})
    make_endpoint(receiver.url)
    receiver.respond(Response(status=500))
    record()
    deliver()
    backdate(timedelta(hours=2))
    worker = Dispatcher()
    worker.step()
    WebhookEndpoint.objects.update(failing_since=None)

    worker.finish()

    assert WebhookDelivery.objects.get().attempts == 2
    assert WebhookEndpoint.objects.get().disabled_at is None


def test_a_success_ends_the_failing_state_that_another_worker_has_stored(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    record()
    worker = Dispatcher()
    worker.step()
    WebhookEndpoint.objects.update(failing_since=timezone.now())

    worker.finish()

    assert statuses() == ["succeeded"]
    assert WebhookEndpoint.objects.get().failing_since is None


def test_a_changed_url_counts_at_once_in_every_worker(receiver: HttpPeer) -> None:
    endpoint_id = make_endpoint(f"{receiver.url}/old").endpoint.id
    receiver.respond(Response(status=410), path="/old")
    subscriptions.cache.get()
    worker = Dispatcher()
    record(EventType.USER_CREATED)
    worker.step()
    WebhookEndpoint.objects.update(url=f"{receiver.url}/new")
    record()

    deliver(worker)

    assert [request.path for request in receiver.received] == ["/old", "/new"]
    assert statuses() == ["failed", "succeeded"]
    assert WebhookEndpoint.objects.get(id=endpoint_id).disabled_at is None


def test_an_endpoint_that_another_process_has_disabled_gets_no_request(receiver: HttpPeer) -> None:
    endpoint_id = make_endpoint(receiver.url).endpoint.id
    record()
    worker = Dispatcher()
    subscriptions.cache.get()
    queries.disable(endpoint_id, reason="manual", at=timezone.now())

    deliver(worker)

    assert receiver.received == []


def test_a_success_ends_the_failing_state(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    receiver.respond(Response(status=500), Response(status=200))
    record()
    deliver()
    backdate(timedelta(minutes=1))

    deliver()

    assert WebhookEndpoint.objects.get().failing_since is None


@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1/", "https://169.254.169.254/latest", "https://[::1]/", "https://10.0.0.1/", "https://0.0.0.0/"],
)
def test_addresses_that_are_not_public_are_refused(url: str, auth_config: ChangeConfig) -> None:
    auth_config(webhooks={"allow_private_networks": False})
    make_endpoint(url)
    record()

    deliver()

    (row,) = rows()
    assert (row.status, row.last_status, row.last_error) == ("pending", None, "address not allowed")


def test_an_endpoint_without_tls_is_refused_once_private_networks_are(
    receiver: HttpPeer, auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_endpoint(receiver.url)
    auth_config(webhooks={"allow_private_networks": False})
    monkeypatch.setattr(connections, "is_public", lambda _address: True)
    record()

    deliver()

    assert receiver.received == []
    assert rows()[0].last_error == "address not allowed"


def test_a_name_with_a_private_address_is_refused(auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    auth_config(webhooks={"allow_private_networks": False})
    monkeypatch.setattr("socket.getaddrinfo", lambda *_a, **_o: [(2, 1, 6, "", ("10.0.0.1", 443))])
    make_endpoint("https://hooks.example.com/")
    record()

    deliver()

    assert rows()[0].last_error == "address not allowed"


def test_a_redirect_is_a_failure(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    receiver.respond(redirect("http://169.254.169.254/"))
    record()

    deliver()

    (row,) = rows()
    assert (row.status, row.last_status, len(receiver.received)) == ("pending", 302, 1)


def test_the_response_is_kept_without_secrets(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
    body = f'{{"seen":"{SECRET}","access_token":"opaque value","jwt":"{token}","ok":true}}'.encode()
    receiver.respond(Response(status=200, body=body + b"\0\xff" + b"x" * 5_000))
    record()

    deliver()

    head = WebhookAttempt.objects.get().response_head
    assert head is not None
    assert len(head) == 1024
    assert head.startswith('{"seen":"[redacted]","access_token":[redacted],"jwt":"[redacted]","ok":true}')
    assert "\0" not in head


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"got signature v1,{'A' * 43}= twice", "got signature [redacted] twice"),
        ("Authorization: Bearer abc.def", "Authorization: [redacted] abc.def"),
        ("see https://user:pw@db.example.com/x", "see https://[redacted]db.example.com/x"),
        ("password=hunter2&x=1", "password=[redacted]&x=1"),
        ("Event accepted", "Event accepted"),
    ],
)
def test_redaction(text: str, kept: str) -> None:
    assert sending.redact(text.encode()) == kept


def test_the_log_does_not_contain_the_path_of_an_endpoint(receiver: HttpPeer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    make_endpoint(f"{receiver.url}/services/T0/key-of-a-chat-service")
    record()
    deliver()
    assert statuses() == ["succeeded"]
    lines = [vars(line) for line in caplog.records]
    assert "outgoing request" in caplog.text
    assert not any("key-of-a-chat-service" in str(line) for line in lines)


def test_a_response_that_is_too_long_is_cut(receiver: HttpPeer) -> None:
    make_endpoint(receiver.url)
    receiver.respond(Response(status=200, body=b"x" * 1_000_000))
    record()

    deliver()

    assert statuses() == ["succeeded"]


def test_an_endpoint_that_hangs_times_out(receiver: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(webhooks={"timeout": timedelta(milliseconds=100)})
    make_endpoint(receiver.url)
    receiver.respond(Response(hang=True))
    record()

    deliver()

    assert rows()[0].last_error == "timed out"
