"""Endpoints, events and deliveries for the tests of webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from authsvc import audit, events
from authsvc.caller import Caller
from authsvc.events import ActorType, EventActor, EventType
from hooks.models import WebhookDelivery, WebhookEndpoint
from hooks.webhooks import endpoints, subscriptions
from hooks.webhooks.dispatcher import Dispatcher
from hooks.webhooks.endpoints import EndpointWithSecret
from tests.fakes.http_peer import Received

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
ADMIN = audit.Administrator(role="service_role")
SYSTEM = EventActor(type=ActorType.SYSTEM)


def make_endpoint(url: str, *event_types: str, secret: str = SECRET) -> EndpointWithSecret:
    created = endpoints.create(
        url=url, event_types=event_types or ["*"], secret=secret, actor=ADMIN, caller=Caller(), at=timezone.now()
    )
    subscriptions.cache.clear()  # no commit in tests
    return created


def record(event_type: EventType = EventType.USER_UPDATED, *, user_id: UUID | None = None, **data: Any) -> None:
    with transaction.atomic():
        events.record(
            event_type,
            user_id=user_id,
            user=(lambda: {"id": str(user_id), "email": "user@example.com"}) if user_id else None,
            data=data,
            actor=SYSTEM,
            request=None,
            at=timezone.now(),
        )


def deliver(dispatcher: Dispatcher | None = None) -> None:
    """Attempt every delivery that is due, until none is."""
    running = dispatcher or Dispatcher()
    count = -1
    while count != (count := sum(WebhookDelivery.objects.values_list("attempts", flat=True))):
        running.searched_at = float("-inf")
        running.step()
        running.finish()


def rows(**conditions: Any) -> list[WebhookDelivery]:
    return list(WebhookDelivery.objects.filter(**conditions).order_by("sequence"))


def statuses() -> list[str]:
    return [row.status for row in rows()]


def backdate(by: timedelta) -> None:
    """Let `by` pass for deliveries and endpoints."""
    WebhookDelivery.objects.update(
        next_attempt_at=F("next_attempt_at") - by,
        leased_until=F("leased_until") - by,
        created_at=F("created_at") - by,
    )
    WebhookEndpoint.objects.update(
        failing_since=F("failing_since") - by, previous_secret_until=F("previous_secret_until") - by
    )
    subscriptions.cache.clear()


def signature(received: Received, secret: str = SECRET) -> str:
    """The expected signature of a request."""
    content = f"{received.headers['webhook-id']}.{received.headers['webhook-timestamp']}.".encode() + received.body
    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def numbers(received: Sequence[Received]) -> list[int]:
    """`data.number` of the events, in the order of arrival."""
    return [request.json()["data"]["number"] for request in received]
