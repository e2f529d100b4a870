"""Deliveries and events: lists, repetition, pings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import QuerySet

from authsvc import audit, events
from authsvc.caller import Caller
from authsvc.db.sql import explain, fetch_rows
from authsvc.events import EventType
from hooks.models import DeliveryStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookEvent
from hooks.webhooks import endpoints, queries, recording
from hooks.webhooks.errors import DeliveryNotFound, EndpointIsDisabled, EventNotFound, ReplayInvalid

MAX_REPLAYED = 10_000
REPLAYED_BY_DEFAULT = (DeliveryStatus.FAILED, DeliveryStatus.CANCELLED)
_REPLAYABLE = frozenset({*REPLAYED_BY_DEFAULT, DeliveryStatus.SUCCEEDED})
_MAX_COUNTED = 10_000
_EVENT_PREFIX = "evt_"

_IS_CHOSEN_TYPE = (
    "(%(types)s::text[] IS NULL OR {0}.type = ANY(%(types)s) OR split_part({0}.type, '.', 1) || '.*' = ANY(%(types)s)"
    " OR '*' = ANY(%(types)s))"
)
# No delivery is older than its event.
_REPLAY = f"""
    UPDATE {queries.DELIVERIES} SET status = 'pending', earlier_attempts = attempts, leased_until = NULL,
        next_attempt_at = CASE WHEN user_id IS NULL THEN %(at)s::timestamptz END
    WHERE id IN (
        SELECT d.id FROM {queries.DELIVERIES} d JOIN {queries.EVENTS} e ON e.id = d.event_id
        WHERE d.endpoint_id = %(endpoint_id)s AND d.status = ANY(%(statuses)s) AND d.created_at >= %(since)s
            AND e.created_at >= %(since)s AND e.created_at < %(until)s AND {_IS_CHOSEN_TYPE.format("d")}
        ORDER BY d.sequence LIMIT %(limit)s
    )
    RETURNING user_id"""  # noqa: S608  (own names)
_REPLAY_UNSUBSCRIBED = f"""
    INSERT INTO {queries.DELIVERIES} (id, event_id, endpoint_id, type, user_id, sequence, next_attempt_at, created_at)
    SELECT gen_random_uuid(), e.id, %(endpoint_id)s, e.type, e.user_id, e.sequence,
        CASE WHEN e.user_id IS NULL THEN %(at)s::timestamptz END, %(at)s
    FROM {queries.EVENTS} e
    WHERE e.created_at >= %(since)s AND e.created_at < %(until)s AND e.is_fanned_out
        AND e.type <> 'webhook.ping' AND {_IS_CHOSEN_TYPE.format("e")}
        AND NOT EXISTS (
            SELECT FROM {queries.DELIVERIES} d WHERE d.event_id = e.id AND d.endpoint_id = %(endpoint_id)s
        )
    ORDER BY e.sequence LIMIT %(limit)s
    RETURNING user_id"""  # noqa: S608  (own names)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Conditions that all hold; None permits every value. The times are those of the deliveries' creation."""

    endpoint_id: UUID | None = None
    event_id: UUID | None = None
    status: str | None = None
    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryDetails:
    delivery: WebhookDelivery
    attempts: list[WebhookAttempt]
    body: bytes
    """The JSON payload of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    event_id: UUID
    delivery_id: UUID


def list_deliveries(chosen: DeliveryFilter, *, limit: int, offset: int) -> tuple[list[WebhookDelivery], int]:
    """Deliveries, newest first, and their number, which above 10,000 is an estimate of the planner."""
    rows = _filtered(chosen).order_by("-created_at", "-id")
    shown = list(rows[offset : offset + limit])
    if len(shown) < limit and (shown or not offset):
        return shown, offset + len(shown)
    counted = rows.order_by()[: _MAX_COUNTED + 1].count()
    if counted <= _MAX_COUNTED:
        return shown, counted
    sql, parameters = rows.order_by().values("id").query.sql_with_params()
    return shown, max(explain(sql, parameters).rows, counted, offset + len(shown))


def view(delivery_id: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> DeliveryDetails:
    """A delivery with its attempts and the event. Records that the event was viewed. Raises DeliveryNotFound."""
    with transaction.atomic(durable=True):
        delivery = find(delivery_id)
        event = delivery.event
        _record_view(event, actor=actor, caller=caller, at=at)
        attempts = list(WebhookAttempt.objects.filter(delivery_id=delivery.id).order_by("id"))
    return DeliveryDetails(delivery=delivery, attempts=attempts, body=bytes(event.body))


def view_event(event_id: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> bytes:
    """The JSON payload of an event, by its id with or without `evt_`. Records the view. Raises EventNotFound."""
    try:
        parsed_id = UUID(event_id.removeprefix(_EVENT_PREFIX))
    except ValueError:
        raise EventNotFound from None
    with transaction.atomic(durable=True):
        event = WebhookEvent.objects.filter(id=parsed_id).first()
        if event is None:
            raise EventNotFound
        _record_view(event, actor=actor, caller=caller, at=at)
    return bytes(event.body)


def find(delivery_id: str) -> WebhookDelivery:
    """The delivery with this id. Raises DeliveryNotFound."""
    try:
        parsed_id = UUID(delivery_id)
    except ValueError:
        raise DeliveryNotFound from None
    rows = WebhookDelivery.objects.select_related("event", "endpoint")
    delivery = rows.filter(id=parsed_id, endpoint__deleted_at__isnull=True).first()
    if delivery is None:
        raise DeliveryNotFound
    return delivery


def retry(delivery_id: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> WebhookDelivery:
    """Make a delivery pending and its schedule of retries begin again. Raises DeliveryNotFound, EndpointIsDisabled.

    It is attempted at once, unless an earlier delivery of the user is pending or a later one under way.
    """
    with transaction.atomic(durable=True):
        queries.lock_order()
        delivery = find(delivery_id)
        _require_active(delivery.endpoint)
        rows = WebhookDelivery.objects.filter(id=delivery.id)
        delivery.refresh_from_db(from_queryset=rows.select_for_update(no_key=True))
        if delivery.leased_until is None or delivery.leased_until <= at or delivery.status != DeliveryStatus.PENDING:
            is_due = delivery.user_id is None or (
                delivery.status == DeliveryStatus.PENDING and delivery.next_attempt_at is not None
            )
            rows.update(
                status=DeliveryStatus.PENDING,
                earlier_attempts=delivery.attempts,
                leased_until=None,
                next_attempt_at=at if is_due else None,
            )
            queries.restore_order(endpoint_id=delivery.endpoint_id, users=[delivery.user_id], at=at)
        traits = {"endpoint_id": str(delivery.endpoint_id), "delivery_id": str(delivery.id), "count": 1}
        audit.record(audit.Action.WEBHOOK_REPLAYED, actor=actor, caller=caller, at=at, traits=traits)
        return rows.get()


def replay(
    endpoint_id: str,
    *,
    since: datetime | None,
    until: datetime | None = None,
    event_types: Collection[str] | None = None,
    statuses: Collection[str] = REPLAYED_BY_DEFAULT,
    include_unsubscribed: bool = False,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> int:
    """Repeat the deliveries of events from `since` until before `until`, at most 10,000; return their number.

    `include_unsubscribed` also delivers the events of the time that were not meant for the endpoint.
    Raises EndpointNotFound, EndpointIsDisabled, ReplayInvalid.
    """
    if since is None:
        raise ReplayInvalid("since is required")
    if not statuses or not _REPLAYABLE.issuperset(statuses):
        raise ReplayInvalid("status must be failed, cancelled or succeeded")
    if event_types is not None and not endpoints.are_event_types(list(event_types)):
        raise ReplayInvalid("event_types must contain known event types")
    with transaction.atomic(durable=True):
        queries.lock_order()
        endpoint = endpoints.find(endpoint_id)
        _require_active(endpoint)
        parameters: dict[str, Any] = {
            "endpoint_id": endpoint.id, "statuses": list(statuses), "since": since, "until": until or at, "at": at,
            "types": None if event_types is None else list(event_types), "limit": MAX_REPLAYED,
        }  # fmt: skip
        users = [user_id for (user_id,) in fetch_rows(_REPLAY, parameters)]
        if include_unsubscribed and len(users) < MAX_REPLAYED:
            parameters["limit"] = MAX_REPLAYED - len(users)
            users += [user_id for (user_id,) in fetch_rows(_REPLAY_UNSUBSCRIBED, parameters)]
        queries.restore_order(endpoint_id=endpoint.id, users=users, at=at)
        traits = {"endpoint_id": str(endpoint.id), "since": since.isoformat(), "count": len(users)}
        audit.record(audit.Action.WEBHOOK_REPLAYED, actor=actor, caller=caller, at=at, traits=traits)
    return len(users)


def ping(endpoint_id: str, *, actor: events.EventActor, request: events.RequestInfo | None, at: datetime) -> Ping:
    """Send an event `webhook.ping` to one endpoint. Raises EndpointNotFound, EndpointIsDisabled."""
    with transaction.atomic(durable=True):
        endpoint = endpoints.find(endpoint_id)
        _require_active(endpoint)
        event_id = recording.store(
            EventType.WEBHOOK_PING,
            user_id=None,
            data={"endpoint_id": endpoint.id},
            actor=actor,
            request=request,
            at=at,
            is_fanned_out=True,
        )
        delivery_id = uuid4()
        fetch_rows(
            f"INSERT INTO {queries.DELIVERIES} (id, event_id, endpoint_id, type, sequence, next_attempt_at, created_at)"  # noqa: S608  (own name)
            f" SELECT %s, id, %s, type, sequence, %s, %s FROM {queries.EVENTS} WHERE id = %s",
            (delivery_id, endpoint.id, at, at, event_id),
        )
    return Ping(event_id=event_id, delivery_id=delivery_id)


def _filtered(chosen: DeliveryFilter) -> QuerySet[WebhookDelivery]:
    conditions = {
        "endpoint_id": chosen.endpoint_id,
        "event_id": chosen.event_id,
        "status": chosen.status,
        "type": chosen.type,
        "created_at__gte": chosen.since,
        "created_at__lt": chosen.until,
    }
    rows = WebhookDelivery.objects.filter(endpoint__deleted_at__isnull=True)
    return rows.filter(**{name: value for name, value in conditions.items() if value is not None})


def _require_active(endpoint: WebhookEndpoint) -> None:
    if endpoint.disabled_at is not None:
        raise EndpointIsDisabled


def _record_view(event: WebhookEvent, *, actor: audit.Administrator, caller: Caller, at: datetime) -> None:
    traits = {"event_id": f"{_EVENT_PREFIX}{event.id}", "event_type": event.type}
    if event.user_id is not None:
        traits["user_id"] = str(event.user_id)
    audit.record(audit.Action.WEBHOOK_EVENT_VIEWED, actor=actor, caller=caller, at=at, traits=traits)
