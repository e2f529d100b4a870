"""The worker that lives in every serving process, from the loading of the WSGI application to the process's exit."""

from __future__ import annotations

import logging
import os
import threading

from authsvc import conf
from authsvc.jobs.worker import Worker

STOP_SECONDS = 30.0
"""How long the exit of a process waits for the job in hand."""

_running: list[Worker] = []
logger = logging.getLogger(__name__)


def start_in_process() -> None:
    """Start the worker of this process, unless it runs already or workers are to be processes of their own."""
    if conf.current().mailer.worker_enabled and not _running:
        worker = Worker()
        worker.start()
        _running.append(worker)


def stop_in_process() -> None:
    """Let the worker of this process, if there is one, finish the job in hand. Also called by the process's exit."""
    while _running:
        if not _running.pop().stop(seconds=STOP_SECONDS):
            logger.warning("job in hand not finished; it will be done again by another worker")


def _start_in_child() -> None:
    # Threads do not survive a fork, as of a server that loads the application before it makes its processes.
    if _running:
        _running.clear()
        start_in_process()


os.register_at_fork(after_in_child=_start_in_child)
# Exit functions of `atexit` come too late, after the pools of threads that jobs run in have been closed, and not at all
# in processes made by multiprocessing. concurrent.futures uses the same hook for the same reason.
threading._register_atexit(stop_in_process)  # type: ignore[attr-defined]
