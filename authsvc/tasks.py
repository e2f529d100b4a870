"""What one of the workers does every minute: rows that have had their time go."""

from __future__ import annotations

from authsvc import clock, conf, jobs
from authsvc.jobs import cleanup
from authsvc.security import rate_limits


@jobs.periodic(name="core.cleanup", cron="* * * * *")
def clean_up() -> None:
    # Counters say nothing once they are over, so this is not asked of the operator.
    rate_limits.delete_expired()
    if conf.current().database.cleanup_enabled:
        cleanup.run(at=clock.now())
