"""Logout tokens, and cleanup of requests of clients and devices, used client assertions and unused clients."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from authsvc import events, jobs
from authsvc.db.sql import namespaced
from authsvc.events import EventType
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule
from oauthserver.clients import clients
from oauthserver.logout import logout_tokens
from oauthserver.logout.logout_tokens import LogoutTokenOutcome

_HOUR = timedelta(hours=1)
_DAY = timedelta(hours=24)
_UNUSED_CLIENT_RETENTION = timedelta(days=30)
_IS_UNUSED = " AND ".join(
    f"NOT EXISTS (SELECT FROM {namespaced(table)} r WHERE r.{column} = t.id)"
    for table, column in (
        ("oauth_consents", "client_id"),
        ("sessions", "oauth_client_id"),
        ("oauth_authorizations", "client_id"),
        ("oauth_device_authorizations", "client_id"),
    )
)


def _a_month_ago_hourly(at: datetime) -> Sequence[datetime] | None:
    # Each run reads every client that registered itself, so that one run in an hour is enough.
    return (at - _UNUSED_CLIENT_RETENTION,) if at.minute == 0 else None


@jobs.task(
    name="oauthserver.send_logout_token",
    retry_delays=(timedelta(seconds=15), timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30)),
)
def send_logout_token(run: jobs.Run, *, client_id: str, user_id: str, session_id: str) -> None:
    """Send a logout token to a client. A trigger of the database defers it.

    A client that stays unreachable misses the token; no job remains.
    """
    outcome = logout_tokens.send(client_id=UUID(client_id), user_id=UUID(user_id), session_id=UUID(session_id))
    if outcome is LogoutTokenOutcome.UNREACHABLE and run.retry_delay is not None:
        raise jobs.Retry


class UnusedClients(CleanupRule):
    """Deletes clients, and records that where the event is recorded."""

    def run(self, *, at: datetime) -> int:
        if not events.is_recorded(EventType.OAUTH_CLIENT_DELETED):
            return super().run(at=at)
        with transaction.atomic():
            return clients.delete_unused(self.lock_expired(at=at), at=at)


cleanup.register(
    # Requests of clients create these rows without a session.
    CleanupRule(
        table="oauth_authorizations", condition="t.expires_at < %s", parameters=cleanup.before(_DAY), is_mandatory=True
    ),
    CleanupRule(
        table="oauth_client_assertions",
        condition="t.expires_at < %s",
        # The clock of a server that verifies assertions may be behind that of the worker.
        parameters=cleanup.before(timedelta(minutes=1)),
        key="digest",
        is_mandatory=True,
    ),
    # An hour, in which a device that polls late still learns that its code has expired.
    CleanupRule(
        table="oauth_device_authorizations",
        condition="t.expires_at < %s",
        parameters=cleanup.before(_HOUR),
        is_mandatory=True,
    ),
    # Clients register themselves without an administrator. Those that no user has ever used are deleted.
    UnusedClients(
        table="oauth_clients",
        condition=f"t.registration_type = 'dynamic' AND t.created_at < %s AND {_IS_UNUSED}",
        parameters=_a_month_ago_hourly,
        is_mandatory=True,
    ),
)
