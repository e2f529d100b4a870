"""Cleanup rules of tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from authsvc import conf
from authsvc.db.sql import namespaced
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule
from tokens.models import Session
from tokens.sessions import impersonation, session_events

_HOUR = timedelta(hours=1)
_DAY = timedelta(hours=24)
_SESSIONS_AT_ONCE = 10


def _ends_of_flows(at: datetime) -> Sequence[datetime]:
    return (at - max(_HOUR, conf.current().flows.expiry), at - _DAY)


def _older_than_timebox(at: datetime) -> Sequence[datetime] | None:
    timebox = conf.current().sessions.timebox
    return None if timebox is None else (at - _DAY - timebox,)


def _inactive_since(at: datetime) -> Sequence[datetime] | None:
    timeout = conf.current().sessions.inactivity_timeout
    return None if timeout is None else (at - _DAY - timeout,)


def _inactive_since_twice(at: datetime) -> Sequence[datetime] | None:
    values = _inactive_since(at)
    return None if values is None else (*values, *values)


_SESSION_IS_OVER = (
    f"NOT t.revoked AND EXISTS (SELECT FROM {namespaced('sessions')} s WHERE s.id = t.session_id AND s.not_after < %s)"
)
# The last use of an imported session that is not converted is the creation of its refresh token.
_NEVER_REFRESHED = (
    "t.refreshed_at IS NULL AND t.created_at < %s AND NOT EXISTS"
    f" (SELECT FROM {namespaced('refresh_tokens')} r"
    " WHERE r.session_id = t.id AND NOT r.revoked AND r.updated_at >= %s)"
)

# A flow that waits for a provider has no user and expires soon. A flow of an email lives as long as its link.
_FLOW_IS_OVER = "t.created_at < %s AND (t.created_at < %s OR (t.user_id IS NULL AND t.authentication_method = 'oauth'))"


class ExpiredImpersonations(CleanupRule):
    """Ends impersonated sessions, and records that; a statement alone could not."""

    def run(self, *, at: datetime) -> int:
        return impersonation.end_expired(at=at, limit=self.batch_size)


class ExpiredSessions(CleanupRule):
    """Deletes sessions, and records that where the event is recorded."""

    def run(self, *, at: datetime) -> int:
        if not session_events.is_end_recorded():
            return super().run(at=at)
        with transaction.atomic():
            expired = Session.objects.filter(id__in=self.lock_expired(at=at))
            ended = defaultdict[UUID, list[UUID]](list)
            for user_id, session_id in expired.values_list("user_id", "id"):
                ended[user_id].append(session_id)
            expired._raw_delete("default")
            for user_id, session_ids in ended.items():
                session_events.record_end(user_id, session_ids, reason="expired")
        return sum(map(len, ended.values()))


cleanup.register(
    ExpiredImpersonations(table="sessions", condition="", parameters=cleanup.before(_DAY), is_mandatory=True),
    CleanupRule(
        table="impersonation_links",
        condition="t.created_at < %s",
        parameters=cleanup.before(impersonation.LINK_LIFETIME),
        is_mandatory=True,
    ),
    CleanupRule(table="refresh_tokens", condition="t.revoked AND t.updated_at < %s", parameters=cleanup.before(_DAY)),
    CleanupRule(
        table="refresh_tokens",
        condition=_SESSION_IS_OVER,
        parameters=cleanup.before(_DAY),
        change="revoked = true, updated_at = now()",
    ),
    ExpiredSessions(
        table="sessions", condition="t.not_after < %s", parameters=cleanup.before(3 * _DAY), max_rows=_SESSIONS_AT_ONCE
    ),
    CleanupRule(
        table="flow_state",
        condition=_FLOW_IS_OVER,
        parameters=_ends_of_flows,
        is_mandatory=True,
    ),
    ExpiredSessions(table="sessions", condition="t.created_at < %s", parameters=_older_than_timebox),
    ExpiredSessions(table="sessions", condition="t.refreshed_at < %s", parameters=_inactive_since),
    ExpiredSessions(table="sessions", condition=_NEVER_REFRESHED, parameters=_inactive_since_twice),
)
