"""Periodic tasks: the cleanup of expired counters and rows, the daily counts, and the partitions of audit entries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from django.utils import timezone

from authsvc import conf, daily_counts, jobs
from authsvc.audit import Action, partitions
from authsvc.daily_counts import Series, Source
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule
from authsvc.security import rate_limits

_COUNTING_SECONDS = 1.0
"""Messages wait this long for the counting of a large installation."""
_COUNTS_KEPT_FOR = timedelta(days=400)


@jobs.periodic(name="core.cleanup", cron="* * * * *")
def clean_up() -> None:
    # Expired counters and flows have no further use, so the cleanup setting does not apply to them. The counters come
    # last, because a failure to delete them must not keep other rows.
    cleanup.run(at=timezone.now(), only_mandatory=not conf.current().database.cleanup_enabled)
    rate_limits.delete_expired()


@jobs.periodic(name="core.daily_counts", cron="* * * * *")
def count_days() -> None:
    daily_counts.count_rows(at=timezone.now(), seconds=_COUNTING_SECONDS)


@jobs.periodic(name="core.audit_partitions", cron="7 * * * *")
def maintain_audit_partitions() -> None:
    partitions.maintain(at=timezone.now())


def _old_counts(at: datetime) -> Sequence[date]:
    return ((at - _COUNTS_KEPT_FOR).date(),)


cleanup.register(CleanupRule(table="daily_counts", key="day", condition="t.day < %s", parameters=_old_counts))
daily_counts.register(
    Source(
        table="audit_log_entries",
        series=f"CASE t.payload ->> 'action' WHEN '{Action.LOGIN}' THEN '{Series.SIGN_INS}'"
        f" WHEN '{Action.SIGN_IN_REFUSED}' THEN '{Series.REFUSED_SIGN_INS}' END",
        label=f"CASE WHEN t.payload ->> 'action' = '{Action.SIGN_IN_REFUSED}'"
        " THEN COALESCE(t.payload -> 'traits' ->> 'error_code', '') ELSE '' END",
    )
)
