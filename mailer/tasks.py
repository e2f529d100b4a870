"""Registers the mailer's tasks and its worker loop when Django starts."""

from __future__ import annotations

from authsvc import jobs
from mailer.delivery.tasks import deliver, discard
from mailer.rendering import template_cache

__all__ = ["deliver", "discard", "refresh_templates"]


@jobs.worker_loop(name="mailer.refresh_templates", interval=template_cache.refresh_interval)
def refresh_templates() -> None:
    template_cache.shared.refresh()
