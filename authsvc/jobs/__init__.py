"""Background jobs in PostgreSQL, on the procrastinate library.

An app registers its tasks in `<app>/tasks.py`, which Django imports at start-up. A job is deferred in the caller's
transaction and run by a worker. `registry` holds the interface; no other package imports procrastinate.
"""

from __future__ import annotations

from authsvc.jobs.registry import (
    BULK_PRIORITY,
    BULK_SOURCE_PRIORITY,
    URGENT_PRIORITY,
    PermanentFailure,
    Retry,
    Run,
    periodic,
    retry_failed_job,
    task,
    worker_loop,
    worker_thread,
)
from authsvc.jobs.worker import Worker, start_in_process, stop_in_process
from authsvc.jobs.worker_health import WorkerHealth, read_worker_health

__all__ = [
    "BULK_PRIORITY",
    "BULK_SOURCE_PRIORITY",
    "URGENT_PRIORITY",
    "PermanentFailure",
    "Retry",
    "Run",
    "Worker",
    "WorkerHealth",
    "periodic",
    "read_worker_health",
    "retry_failed_job",
    "start_in_process",
    "stop_in_process",
    "task",
    "worker_loop",
    "worker_thread",
]
