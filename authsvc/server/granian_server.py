"""The granian HTTP server around `authsvc.wsgi`, in this process and serving processes of its making."""

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
    """Serve until a signal asks to stop; returns when the last request has been answered.

    `application` has been loaded after `processes.preload`; this process must have no threads of its own.
    """
    # The serving processes share the memory of what this one has loaded, which a fresh interpreter in each would not.
    multiprocessing.set_start_method("fork", force=True)
    server = MPServer(
        "authsvc.wsgi:application",
        address=serving.address(config),
        port=config.api.port,
        interface=Interfaces.WSGI,
        # In its other mode the end of an idle process may pass unnoticed by the thread that waits for it.
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
    told_to_stop = threading.Event()

    def heed(number: signal.Signals) -> None:
        if number not in processes.STOPPING:
            processes.act(number)
            _send(server, number)
        elif not told_to_stop.is_set():
            told_to_stop.set()
            logger.info("received graceful shutdown signal")
            limit = threading.Timer(serving.DRAIN_SECONDS, _cut_off, (server,))
            limit.daemon = True
            limit.start()
            server.signal_handler_interrupt()  # type: ignore[no-untyped-call]  # granian's, untyped

    def begin() -> Callable[..., Any]:
        processes.obey_supervisor()
        processes.begin()
        return application

    server.on_startup(lambda: processes.take_signals(heed))
    # So that a process which takes the place of another begins with settings as new as those of the others.
    server.on_startup(reload.start)
    processes.freeze()
    try:
        server.serve(target_loader=begin, wrap_loader=False)
    except SystemExit:
        # Ctrl-C reaches the serving processes as well; that they end before they are told to is no failure then.
        if not told_to_stop.is_set():
            raise


def _cut_off(server: MPServer) -> None:
    # Not granian's own limit: it takes a process that has just ended for one that refuses to.
    logger.error("shutdown failed", extra={"error": f"requests still running after {serving.DRAIN_SECONDS} s"})
    _send(server, signal.SIGKILL)


def _send(server: MPServer, number: signal.Signals) -> None:
    for worker in list(server.wrks):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.inner.pid, number)
