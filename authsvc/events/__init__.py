"""Lifecycle events: services record changes of users and sessions, and sinks store them for other systems."""

from __future__ import annotations

from authsvc.events.contract import (
    Actor,
    ActorType,
    Event,
    EventType,
    RequestInfo,
    current_request,
    is_recorded,
    record,
    sinks,
)

__all__ = [
    "Actor",
    "ActorType",
    "Event",
    "EventType",
    "RequestInfo",
    "current_request",
    "is_recorded",
    "record",
    "sinks",
]
