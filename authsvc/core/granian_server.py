"""The granian HTTP server around `authsvc.wsgi`, in this process and serving processes of its making."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import socket
import threading
from types import FrameType

from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer

from authsvc.core import serving
from authsvc.core.config import schema

logger = logging.getLogger(__name__)


def run(config: schema.AuthConfig) -> None:
    """Serve until a signal asks to stop; returns when the last request has been answered."""
    # A fresh interpreter per process: no thread, lock or connection of this one is copied, and its exit functions run.
    multiprocessing.set_start_method("spawn", force=True)
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
        workers_kill_timeout=serving.DRAIN_SECONDS,
        log_level=LogLevels.warning,
        log_dictconfig={"formatters": {}, "handlers": {}, "loggers": {"_granian": {"handlers": [], "propagate": True}}},
    )
    told_to_stop = threading.Event()

    def listen_to_signals() -> None:
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        # Written to in whichever thread a signal arrives; handlers run in the main thread alone, and it may be waiting.
        signal.set_wakeup_fd(writer.detach())
        for number in serving.STOPPING:
            signal.signal(number, _noticed_elsewhere)
        threading.Thread(target=stop, args=(reader,), name="stop-at-signal", daemon=True).start()

    def stop(signals: socket.socket) -> None:
        while signals.recv(1):
            if not told_to_stop.is_set():
                told_to_stop.set()
                logger.info("received graceful shutdown signal")
                server.signal_handler_interrupt()  # type: ignore[no-untyped-call]

    server.on_startup(listen_to_signals)
    try:
        server.serve()
    except SystemExit:
        # Ctrl-C reaches the serving processes as well; that they end before they are told to is no failure then.
        if not told_to_stop.is_set():
            raise


def _noticed_elsewhere(_number: int, _frame: FrameType | None) -> None:
    pass
