"""Registers the mailer's tasks, its worker loop, its cleanup and its daily counts when Django starts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils import timezone

from authsvc import conf, daily_counts, jobs
from authsvc.daily_counts import Series, Source
from authsvc.jobs import cleanup, queued_jobs
from authsvc.jobs.cleanup import CleanupRule
from mailer.delivery.tasks import deliver, discard
from mailer.models import AttemptOutcome
from mailer.rendering import template_cache

__all__ = ["delete_failed", "deliver", "discard", "refresh_templates"]


@jobs.worker_loop(name="mailer.refresh_templates", interval=template_cache.refresh_interval)
def refresh_templates() -> None:
    template_cache.shared.refresh()


@jobs.periodic(name="mailer.delete_failed", cron="17 * * * *")
def delete_failed() -> None:
    queued_jobs.delete_failed(before=timezone.now() - conf.current().mailer.retention)


def _before_retention(at: datetime) -> Sequence[datetime]:
    return (at - conf.current().mailer.retention,)


# Requests without a session cause messages.
cleanup.register(
    CleanupRule(
        table="message_attempts", condition="t.created_at < %s", parameters=_before_retention, is_mandatory=True
    )
)
daily_counts.register(
    Source(
        table="message_attempts",
        series=f"CASE t.outcome WHEN '{AttemptOutcome.DELIVERED}' THEN '{Series.MESSAGES_SENT}'"
        f" WHEN '{AttemptOutcome.FAILED}' THEN '{Series.MESSAGES_FAILED}' END",
    )
)
