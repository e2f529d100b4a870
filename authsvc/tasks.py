"""The cleanup task: deletes expired rate-limit counters and the rows of the registered cleanup rules every minute."""

from __future__ import annotations

from django.utils import timezone

from authsvc import conf, jobs
from authsvc.jobs import cleanup
from authsvc.security import rate_limits


@jobs.periodic(name="core.cleanup", cron="* * * * *")
def clean_up() -> None:
    # Expired counters and flows have no further use, so the cleanup setting does not apply to them.
    rate_limits.delete_expired()
    cleanup.run(at=timezone.now(), only_mandatory=not conf.current().database.cleanup_enabled)
