"""The delivery task and its pauses."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from authsvc import clock, jobs
from mailer.delivery import attempt
from mailer.rendering import template_cache

PAUSES = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=6),
    timedelta(hours=12),
)


@jobs.task(name="mailer.deliver", retry_delays=PAUSES)
def deliver(
    run: jobs.Run,
    /,
    *,
    message_id: str,
    channel: str,
    kind: str,
    sealed: str,
    to_user: str | None = None,
    to_address: str | None = None,
) -> None:
    """`to_user` and `to_address` are marks by which `queries` finds the job; older jobs have none."""
    attempt.deliver(
        message_id=UUID(message_id),
        channel=channel,
        kind=kind,
        sealed=sealed,
        attempt=run.attempt,
        pause=run.retry_delay,
        at=clock.now(),
    )


@jobs.worker_loop(name="mailer.refresh_templates", interval=template_cache.refresh_interval)
def refresh_templates() -> None:
    template_cache.shared.refresh()


@jobs.task(name="mailer.discard")
def discard(run: jobs.Run, /, *, filler: str, to_user: str | None = None, to_address: str | None = None) -> None:
    """Nothing: the job was stored so that a request which sends nothing takes as long as one that does."""
