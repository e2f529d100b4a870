"""Registers the mailer's tasks, its worker loop and its daily counts when Django starts."""

from __future__ import annotations

from authsvc import daily_counts, jobs
from authsvc.daily_counts import Series, Source
from mailer.delivery.tasks import deliver, discard
from mailer.models import Outcome
from mailer.rendering import template_cache

__all__ = ["deliver", "discard", "refresh_templates"]


@jobs.worker_loop(name="mailer.refresh_templates", interval=template_cache.refresh_interval)
def refresh_templates() -> None:
    template_cache.shared.refresh()


daily_counts.register(
    Source(
        table="message_attempts",
        series=f"CASE t.outcome WHEN '{Outcome.DELIVERED}' THEN '{Series.MESSAGES_SENT}'"
        f" WHEN '{Outcome.FAILED}' THEN '{Series.MESSAGES_FAILED}' END",
    )
)
