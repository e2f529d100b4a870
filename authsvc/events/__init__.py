"""Lifecycle events: services record changes of users and sessions, and sinks store them for other systems."""

from __future__ import annotations

from authsvc.events.contract import (
    ActorType,
    Event,
    EventActor,
    EventType,
    RequestInfo,
    current_request,
    is_recorded,
    record,
    sinks,
)

__all__ = [
    "ActorType",
    "Event",
    "EventActor",
    "EventType",
    "RequestInfo",
    "current_request",
    "is_recorded",
    "record",
    "sinks",
]
