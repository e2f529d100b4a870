"""Cleanup of the requests of clients and devices, and of used client assertions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule

_HOUR = timedelta(hours=1)
_DAY = timedelta(hours=24)


def _a_day_ago(at: datetime) -> Sequence[datetime]:
    return (at - _DAY,)


def _an_hour_ago(at: datetime) -> Sequence[datetime]:
    return (at - _HOUR,)


cleanup.register(
    # Requests of clients create these rows without a session.
    CleanupRule(table="oauth_authorizations", condition="t.expires_at < %s", parameters=_a_day_ago, is_mandatory=True),
    CleanupRule(
        table="oauth_client_assertions",
        condition="t.expires_at < %s",
        parameters=lambda at: (at,),
        key="digest",
        is_mandatory=True,
    ),
    # An hour, in which a device that polls late still learns that its code has expired.
    CleanupRule(
        table="oauth_device_authorizations", condition="t.expires_at < %s", parameters=_an_hour_ago, is_mandatory=True
    ),
)
