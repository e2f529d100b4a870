"""The job worker of a serving process: starts when the WSGI application is loaded, stops when the process exits."""

from __future__ import annotations

import logging
import os
import threading

from authsvc import conf
from authsvc.jobs.worker import Worker

STOP_SECONDS = 30.0
"""Timeout of the process's exit for the running job."""

_running: list[Worker] = []
logger = logging.getLogger(__name__)


def start_in_process() -> None:
    """Start this process's worker, unless it is running or the settings demand separate worker processes."""
    if conf.current().mailer.worker_enabled and not _running:
        worker = Worker()
        worker.start()
        _running.append(worker)


def stop_in_process() -> None:
    """Stop this process's worker after its running job. Also called when the process exits."""
    while _running:
        if not _running.pop().stop(seconds=STOP_SECONDS):
            logger.warning("running job not finished in time; another worker will run it again")


def _start_in_child() -> None:
    # Threads do not survive a fork, for example of a server that preloads the application.
    if _running:
        _running.clear()
        start_in_process()


os.register_at_fork(after_in_child=_start_in_child)
# `atexit` functions run after the thread pools of the jobs are closed, and do not run at all in processes made by
# multiprocessing. concurrent.futures uses this hook for the same reason.
threading._register_atexit(stop_in_process)  # type: ignore[attr-defined]
