"""Runs granian: this process supervises, and forked processes serve `authsvc.wsgi`."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer

from authsvc import conf
from authsvc.server import processes, reload, serving

logger = logging.getLogger(__name__)


def run(config: conf.AuthConfig, application: Callable[..., Any]) -> None:
    """Serve until a signal stops it; returns when the last request has been answered.

    `application` must have been loaded after `processes.preload`. This process must not have other threads.
    """
    # Forked processes share the memory of the loaded application.
    multiprocessing.set_start_method("fork", force=True)
    server = MPServer(
        "authsvc.wsgi:application",
        address=serving.address(config),
        port=config.api.port,
        interface=Interfaces.WSGI,
        # In its other mode, the thread that waits for an idle process may not notice its end.
        runtime_mode=RuntimeModes.st,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=serving.IDLE_SECONDS * 1000, max_buffer_size=serving.HEADER_BYTES
        ),
        websockets=False,
        workers=serving.processes(config),
        blocking_threads=serving.threads(config),
        respawn_failed_workers=True,
        log_level=LogLevels.warning,
        log_dictconfig={"formatters": {}, "handlers": {}, "loggers": {"_granian": {"handlers": [], "propagate": True}}},
    )
    is_stopping = threading.Event()

    def handle(number: signal.Signals) -> None:
        if number not in processes.STOPPING:
            processes.handle_signal(number)
            _send(server, number)
        elif not is_stopping.is_set():
            is_stopping.set()
            logger.info("received graceful shutdown signal")
            limit = threading.Timer(serving.DRAIN_SECONDS, _kill, (server,))
            limit.daemon = True
            limit.start()
            server.signal_handler_interrupt()  # type: ignore[no-untyped-call]  # granian's, untyped

    def load() -> Callable[..., Any]:
        processes.follow_supervisor()
        processes.start()
        return application

    server.on_startup(lambda: processes.handle_signals_in_thread(handle))
    # A process that replaces another then starts with the newest settings.
    server.on_startup(reload.start)
    processes.freeze()
    try:
        server.serve(target_loader=load, wrap_loader=False)
    except SystemExit:
        # Ctrl-C also reaches the serving processes; they may end before this process stops them.
        if not is_stopping.is_set():
            raise


def _kill(server: MPServer) -> None:
    # Not granian's own time limit, which mistakes a process that has just ended for one that does not stop.
    logger.error("shutdown failed", extra={"error": f"requests still running after {serving.DRAIN_SECONDS} s"})
    _send(server, signal.SIGKILL)


def _send(server: MPServer, number: signal.Signals) -> None:
    for worker in list(server.wrks):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.inner.pid, number)
