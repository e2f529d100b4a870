"""Runs granian: this process supervises, and forked processes serve `authsvc.wsgi`.

granian's own RSGI processes run an event loop, which costs two more changes of thread per request. Here its requests
and futures call back directly instead. That uses parts of granian that are not public: its version is pinned, and the
tests of servers and of stalled clients cover all of it.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from typing import Any

from granian._granian import CallbackScheduler, RSGIWorker
from granian._signals import set_sync_signals
from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer
from granian.server.mp import WorkerProcess

from authsvc import conf
from authsvc.server import processes, reload, serving
from authsvc.server.request_slots import RequestSlots
from authsvc.server.rsgi import Application, Requests

logger = logging.getLogger(__name__)


def run(config: conf.AuthConfig, application: Application, slots: RequestSlots) -> None:
    """Serve until a signal stops it; returns when the last request has been answered.

    `application` must have been loaded after `processes.preload`. This process must not have other threads.
    """
    # Forked processes share the memory of the loaded application.
    multiprocessing.set_start_method("fork", force=True)
    server = _server(config)
    is_stopping = threading.Event()

    def handle(number: int) -> None:
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

    def load() -> Requests:
        processes.follow_supervisor()
        processes.start()
        requests = Requests(application, slots=slots, port=config.api.port)
        requests.start()
        return requests

    server.on_startup(lambda: processes.handle_signals_in_thread(handle))
    # A process that replaces another then starts with the newest settings.
    server.on_startup(reload.start)
    processes.freeze()
    try:
        server.serve(spawn_target=_serve_process, target_loader=load, wrap_loader=False)  # type: ignore[arg-type]  # any object
    except SystemExit:
        # Ctrl-C also reaches the serving processes; they may end before this process stops them.
        if not is_stopping.is_set():
            raise


def _server(config: conf.AuthConfig) -> MPServer:
    return MPServer(
        "authsvc.wsgi:application",
        address=serving.address(config.api.host, config.api.port),
        port=config.api.port,
        interface=Interfaces.RSGI,
        # In its other mode, the thread that waits for an idle process may not notice its end.
        runtime_mode=RuntimeModes.st,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=serving.IDLE_SECONDS * 1000, max_buffer_size=serving.HEADER_BYTES
        ),
        websockets=False,
        workers=serving.processes(config),
        # The thread in which granian calls back; `slots` have their own.
        blocking_threads=1,
        backlog=serving.BACKLOG,
        backpressure=_allow_connections(),
        respawn_failed_workers=True,
        log_level=LogLevels.warning,
        log_dictconfig={"formatters": {}, "handlers": {}, "loggers": {"_granian": {"handlers": [], "propagate": True}}},
    )


def _allow_connections() -> int:
    """Raise the limit of open files as far as permitted; returns the connections that a process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = serving.MAX_CONNECTIONS + serving.OTHER_FILES
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return max(1, limit - serving.OTHER_FILES)


class _DirectCalls:
    """The part of an event loop that granian's futures need: calls back at once, in granian's thread."""

    @staticmethod
    def call_soon_threadsafe(callback: Callable[..., object], *arguments: Any, context: object = None) -> None:
        callback(*arguments)

    call_soon = call_soon_threadsafe


class _Scheduler(CallbackScheduler):
    """Passes each request on as soon as its headers have arrived."""

    def __new__(cls, _schedule: Callable[[Any], None]) -> _Scheduler:
        # The callback and three functions of an event loop, which nothing calls.
        return super().__new__(cls, _DirectCalls, None, None, None, None)  # type: ignore[call-arg]  # not in the stubs

    def __init__(self, schedule: Callable[[Any], None]) -> None:
        super().__init__()
        self._schedule_fn = schedule


@WorkerProcess.wrap_target  # type: ignore[untyped-decorator]  # granian's
def _serve_process(
    number: int,
    requests: Requests,
    socket: Any,
    ipc: Any,
    _loop: Any,
    _runtime_mode: Any,
    runtime_threads: int,
    runtime_blocking_threads: int,
    blocking_threads: int,
    blocking_threads_idle_timeout: int,
    backpressure: int,
    _task_implementation: Any,
    *options: Any,
) -> None:
    """Serve in a forked process. `options` are those of HTTP, static files, logs, TLS and metrics."""
    http_mode, http1, http2, has_websockets, static_path, _log_format, ssl_context, _scope_options, metrics = options
    stopping = set_sync_signals()  # type: ignore[no-untyped-call]  # granian's
    stopped = threading.Event()
    stopping.add_cb(stopped.set)
    worker_class: Any = RSGIWorker  # its stub lacks parameters
    worker = worker_class(
        *(number, socket, ipc, runtime_threads, runtime_blocking_threads, blocking_threads),
        *(blocking_threads_idle_timeout, backpressure, http_mode, http1, http2, has_websockets, static_path),
        *ssl_context,
        metrics,
    )
    worker.serve_str(_Scheduler(requests.schedule), _DirectCalls, stopping)
    stopped.wait()


def _kill(server: MPServer) -> None:
    # Not granian's own time limit, which mistakes a process that has just ended for one that does not stop.
    logger.error("shutdown failed", extra={"error": f"requests still running after {serving.DRAIN_SECONDS} s"})
    _send(server, signal.SIGKILL)


def _send(server: MPServer, number: int) -> None:
    for worker in list(server.wrks):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.inner.pid, number)
