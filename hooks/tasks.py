"""The delivery of webhooks in each worker, and the cleanup of events, deliveries and endpoints."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime

from authsvc import conf, jobs
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule
from hooks.webhooks import queries
from hooks.webhooks.dispatcher import Dispatcher

_OF_DELETED_USER = f"IN (SELECT e.id FROM {queries.EVENTS} e WHERE e.must_scrub)"  # noqa: S608  (own name)
# Attempts come first, then deliveries, then events: the event leads to the others.
_MUST_EMPTY = f"""t.response_head IS NOT NULL AND t.delivery_id IN (
    SELECT d.id FROM {queries.DELIVERIES} d WHERE d.event_id {_OF_DELETED_USER} AND d.status <> 'pending')"""  # noqa: S608  (own name)
_MUST_FORGET_USER = f"""t.user_id IS NOT NULL AND t.status <> 'pending' AND t.event_id {_OF_DELETED_USER}
    AND NOT EXISTS (
        SELECT FROM {queries.ATTEMPTS} a WHERE a.delivery_id = t.id AND a.response_head IS NOT NULL)"""
_MUST_SCRUB = f"""t.must_scrub AND t.is_fanned_out AND NOT EXISTS (
    SELECT FROM {queries.DELIVERIES} d
    WHERE d.event_id = t.id AND (d.status = 'pending' OR d.user_id IS NOT NULL))"""
_IS_OF_DELETED_ENDPOINT = f"""t.endpoint_id IN (
    SELECT p.id FROM {queries.ENDPOINTS} p WHERE p.deleted_at IS NOT NULL)"""  # noqa: S608  (own name)
_IS_DELETED = f"""t.deleted_at IS NOT NULL AND NOT EXISTS (
    SELECT FROM {queries.DELIVERIES} d WHERE d.endpoint_id = t.id)"""


@jobs.worker_thread(name="hooks.deliver_webhooks")
def deliver_webhooks(stopping: threading.Event) -> None:
    Dispatcher().run(stopping)


def _always(_at: datetime) -> Sequence[datetime]:
    return ()


def _before_retention(at: datetime) -> Sequence[datetime] | None:
    config = conf.current().webhooks
    return (at - config.retention,) if config.enabled else None


def _before_retention_while_disabled(at: datetime) -> Sequence[datetime] | None:
    config = conf.current().webhooks
    return None if config.enabled else (at - config.retention,) * 2


cleanup.register(
    CleanupRule(
        table="webhook_attempts",
        condition=_MUST_EMPTY,
        parameters=_always,
        change="response_head = NULL",
        is_mandatory=True,
    ),
    CleanupRule(
        table="webhook_deliveries",
        condition=_MUST_FORGET_USER,
        parameters=_always,
        change="user_id = NULL",
        is_mandatory=True,
    ),
    CleanupRule(
        table="webhook_events",
        condition=_MUST_SCRUB,
        parameters=_always,
        change=queries.SCRUB_EVENT,
        is_mandatory=True,
    ),
    CleanupRule(
        table="webhook_events",
        condition=f"t.created_at < %s AND NOT EXISTS (SELECT FROM {queries.DELIVERIES} d"
        " WHERE d.event_id = t.id AND d.status = 'pending')",
        parameters=_before_retention,
        is_mandatory=True,
    ),
    # Nothing is delivered then. All events stay until the newest pending delivery is old, so that none is delivered
    # later without the earlier ones of its user.
    CleanupRule(
        table="webhook_events",
        condition=f"t.created_at < %s AND NOT EXISTS (SELECT FROM {queries.DELIVERIES} d"
        " WHERE d.status = 'pending' AND d.created_at >= %s)",
        parameters=_before_retention_while_disabled,
        is_mandatory=True,
    ),
    CleanupRule(table="webhook_deliveries", condition=_IS_OF_DELETED_ENDPOINT, parameters=_always, is_mandatory=True),
    CleanupRule(table="webhook_endpoints", condition=_IS_DELETED, parameters=_always, is_mandatory=True),
)
