"""The delivery task with its retry delays, and the placeholder task. Task and argument names are stored with jobs."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from authsvc import jobs
from mailer.delivery import attempt

RETRY_DELAYS = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=6),
    timedelta(hours=12),
)


@jobs.task(name="mailer.deliver", retry_delays=RETRY_DELAYS)
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
    """`to_user` and `to_address` are digests that find the jobs of a recipient; older jobs have none."""
    attempt.deliver(
        message_id=UUID(message_id),
        channel=channel,
        kind=kind,
        encrypted=sealed,
        attempt=run.attempt,
        retry_delay=run.retry_delay,
        at=timezone.now(),
    )


@jobs.task(name="mailer.discard")
def discard(run: jobs.Run, /, *, filler: str, to_user: str | None = None, to_address: str | None = None) -> None:
    """Does nothing. The job exists so that requests which send nothing take as long as those that do."""
