"""Work for later, kept in PostgreSQL: declared, deferred in the caller's transaction, and done by a worker.

The only user of the procrastinate library. An app declares its work in `<app>/tasks.py`, which Django start-up imports;
start reading at `registry.py`.
"""

from __future__ import annotations

from authsvc.jobs.in_process import start_in_process, stop_in_process
from authsvc.jobs.registry import GiveUp, Run, Task, TryAgain, in_every_worker, periodic, retry, task
from authsvc.jobs.worker import Worker
from authsvc.jobs.worker_health import LONGEST_SILENCE, VitalSigns, vital_signs

__all__ = [
    "LONGEST_SILENCE",
    "GiveUp",
    "Run",
    "Task",
    "TryAgain",
    "VitalSigns",
    "Worker",
    "in_every_worker",
    "periodic",
    "retry",
    "start_in_process",
    "stop_in_process",
    "task",
    "vital_signs",
]
