"""The sink that stores events: the outbox of the webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson

from authsvc import conf
from authsvc.api.renderers import rfc3339
from authsvc.events import Event, EventActor, EventType, RequestInfo
from hooks.webhooks import queries, subscriptions

API_VERSION = "2026-01-01"
"""The version of the payload format."""


class WebhookSink:
    def is_subscribed(self, type: EventType) -> bool:
        return subscriptions.is_subscribed(type)

    def record(self, event: Event) -> None:
        store(
            event.type,
            user_id=event.user_id,
            data=_data(event),
            actor=event.actor,
            request=event.request,
            at=event.at,
        )


def store(
    type: EventType,
    *,
    user_id: UUID | None,
    data: Mapping[str, Any],
    actor: EventActor,
    request: RequestInfo | None,
    at: datetime,
    is_fanned_out: bool = False,
) -> UUID:
    """Store an event in the caller's transaction and return its id. One statement, which inserts the number too."""
    event_id = uuid4()
    head = {"id": f"evt_{event_id}", "type": type, "timestamp": rfc3339(at)}
    tail = {"api_version": API_VERSION, "actor": _actor(actor), "request": _request(request), "data": data}
    queries.insert_event(
        event_id=event_id,
        type=type,
        user_id=user_id,
        head=orjson.dumps(head)[:-1] + b',"sequence":',
        tail=b"," + orjson.dumps(tail, option=orjson.OPT_UTC_Z)[1:],
        is_fanned_out=is_fanned_out,
        at=at,
    )
    return event_id


def _data(event: Event) -> dict[str, Any]:
    data = dict(event.data)
    has_full_user = conf.current().webhooks.include_user == "full"
    if not has_full_user and "identity" in data:
        data["identity"] = {name: value for name, value in data["identity"].items() if name != "identity_data"}
    if event.user is None:
        return data
    return {"user": event.user if has_full_user else {"id": event.user["id"]}, **data}


def _actor(actor: EventActor) -> dict[str, Any]:
    return {"type": actor.type, "id": actor.id, "role": actor.role}


def _request(request: RequestInfo | None) -> dict[str, str] | None:
    if request is None:
        return None
    values = {"id": request.id, "ip_address": request.ip_address, "user_agent": request.user_agent}
    return {name: value for name, value in values.items() if value}
