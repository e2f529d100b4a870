"""The list of lifecycle events, and the contract between the services that record them and the sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol
from uuid import UUID

from django.db import connection

from authsvc.caller import current_caller


class EventType(StrEnum):
    USER_CREATED = "user.created"
    USER_CONFIRMED = "user.confirmed"
    USER_UPDATED = "user.updated"
    USER_DELETED = "user.deleted"
    USER_INVITED = "user.invited"
    SESSION_STARTED = "session.started"
    SESSION_UPGRADED = "session.upgraded"
    SESSION_REVOKED = "session.revoked"
    IDENTITY_LINKED = "identity.linked"
    IDENTITY_UNLINKED = "identity.unlinked"
    FACTOR_ENROLLED = "factor.enrolled"
    FACTOR_UNENROLLED = "factor.unenrolled"
    PASSKEY_CREATED = "passkey.created"
    PASSKEY_DELETED = "passkey.deleted"
    OAUTH_GRANT_APPROVED = "oauth.grant_approved"
    OAUTH_GRANT_REVOKED = "oauth.grant_revoked"
    OAUTH_CLIENT_CREATED = "oauth.client_created"
    OAUTH_CLIENT_UPDATED = "oauth.client_updated"
    OAUTH_CLIENT_DELETED = "oauth.client_deleted"
    WEBHOOK_PING = "webhook.ping"


class ActorType(StrEnum):
    USER = "user"
    ADMIN = "admin"
    """A caller of the admin API."""
    OPERATOR = "operator"
    """A user of the console."""
    SYSTEM = "system"
    """A job, a cleanup or a command."""
    ANONYMOUS = "anonymous"
    """A caller without a credential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventActor:
    type: ActorType
    id: UUID | None = None
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """The request that caused an event; unknown values are empty."""

    id: str = ""
    ip_address: str = ""
    user_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    type: EventType
    user_id: UUID | None
    user: Mapping[str, Any] | None = field(repr=False)
    """The JSON of the user as administrators see it; None for an event without a user."""
    data: Mapping[str, Any] = field(repr=False)
    """Further members of the event's `data`."""
    actor: EventActor
    request: RequestInfo | None
    """None for an event of the system."""
    at: datetime


class EventSink(Protocol):
    def is_subscribed(self, type: EventType) -> bool:
        """True if the sink stores events of this type. Costs no statement."""

    def record(self, event: Event) -> None:
        """Store the event in the caller's transaction. One statement."""


sinks: list[EventSink] = []
"""The sinks of all installed apps; `AppConfig.ready()` adds that of an app."""


def is_recorded(type: EventType) -> bool:
    """True if a sink stores events of this type. Costs no statement."""
    return any(sink.is_subscribed(type) for sink in sinks)


def current_actor() -> EventActor:
    """The actor of the current request; the system outside of requests."""
    caller = current_caller.get()
    if caller is None:
        return EventActor(type=ActorType.SYSTEM)
    actor: EventActor | None = caller.audit.event_actor
    return actor or EventActor(type=ActorType.ANONYMOUS)


def current_request() -> RequestInfo | None:
    """The current request; None outside of requests."""
    caller = current_caller.get()
    if caller is None:
        return None
    return RequestInfo(id=caller.request_id, ip_address=caller.address, user_agent=caller.user_agent)


def record(
    type: EventType,
    *,
    at: datetime,
    actor: EventActor | None = None,
    request: RequestInfo | None = None,
    user_id: UUID | None = None,
    user: Callable[[], Mapping[str, Any]] | None = None,
    data: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Store an event with each subscribed sink, in the transaction of the change.

    `user` and a callable `data` are called only then. Without `actor` and `request` those of the current request
    count. Raises RuntimeError outside a transaction.
    """
    subscribed = [sink for sink in sinks if sink.is_subscribed(type)]
    if not subscribed:
        return
    if not connection.in_atomic_block:
        raise RuntimeError(f"{type} is not recorded in the transaction of the change")
    event = Event(
        type=type,
        user_id=user_id,
        user=user() if user else None,
        data=data() if callable(data) else data,
        actor=actor or current_actor(),
        request=request or current_request(),
        at=at,
    )
    for sink in subscribed:
        sink.record(event)
