"""Settings of gunicorn for this service: `gunicorn -c gunicorn.conf.py authsvc.wsgi`."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from gunicorn import util

from authsvc import conf

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authsvc.settings")
try:
    _config = conf.current()
except ImproperlyConfigured as error:
    sys.exit(conf.describe_error(error, is_terminal=sys.stderr.isatty()))


from authsvc.server import connection_draining, processes, serving, startup, threaded_requests
from authsvc.server.reload import start as start_reload

try:
    _address = serving.address(_config.api.host, _config.api.port)
except OSError:
    # `startup.prepare` reports it once logging is set up.
    _address = "127.0.0.1"
bind = f"[{_address}]:{_config.api.port}" if ":" in _address else f"{_address}:{_config.api.port}"
workers = serving.processes(_config)
worker_class = "gthread"
# Loaded once and shared by the serving processes.
preload_app = True
processes.preload()
# The modules of the application are no garbage, and looking for some takes a seventh of the start.
gc.disable()
threads = threaded_requests.THREADS
worker_connections = serving.MAX_CONNECTIONS
http_parser = "auto"  # the one in C where it could be compiled, at half the cost of the Python one
graceful_timeout = serving.DRAIN_SECONDS
keepalive = serving.IDLE_SECONDS
# It needs a writable home folder.
control_socket_disable = True
# One listener per process: a process that stops drains its own connections, not those of the others.
reuse_port = True
# Access tokens travel in a header and grow with the user's metadata.
limit_request_line = 8190
limit_request_fields = 100
limit_request_field_size = 16_384
# WSGI cannot distinguish `X_Forwarded_For` from `X-Forwarded-For`.
header_map = "drop"
# The service writes its own access log; other records of gunicorn go to the common log.
accesslog = None
logconfig_dict = {
    **settings.LOGGING,
    "loggers": {
        **settings.LOGGING.get("loggers", {}),
        "gunicorn.error": {"level": "WARNING", "handlers": [], "propagate": True},
    },
}


def _write_error(client: socket.socket, status: int, reason: str, _message: str) -> None:
    """Answer a request that gunicorn cannot parse, in place of gunicorn's own HTML page."""
    head = f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Length: 0\r\nX-Content-Type-Options: nosniff"
    util.write_nonblock(client, f"{head}\r\n\r\n".encode("latin1"))


util.write_error = _write_error


def on_starting(_arbiter: Any) -> None:
    """Runs once, before gunicorn listens and forks, and after it has loaded the application."""
    gc.freeze()
    gc.enable()
    startup.prepare(_config)


_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_early_signals: list[int] = []
"""Signals that a new process has received before it had handlers of its own."""


def _keep_early_signals() -> None:
    """A new process inherits the handlers of the arbiter, which would lose a signal to stop."""
    arbiter = os.getpid()
    for number in _STOP_SIGNALS:
        inherited: Any = signal.getsignal(number)

        def handle(received: int, frame: FrameType | None, inherited: Any = inherited) -> None:
            if os.getpid() == arbiter:
                inherited(received, frame)
            else:
                _early_signals.append(received)

        signal.signal(number, handle)


def when_ready(_arbiter: Any) -> None:
    """Runs before the first fork."""
    _keep_early_signals()
    processes.freeze()
    # A process that replaces another then starts with the newest settings.
    start_reload()


def post_worker_init(worker: Any) -> None:
    """Handle Ctrl-C as SIGTERM: gunicorn's own handler may lock its thread pool twice."""

    def stop(number: int, frame: FrameType | None) -> None:
        if connection_draining.refuse_new_connections():
            threading.Timer(connection_draining.SECONDS, worker.handle_exit, (number, frame)).start()
        else:
            worker.handle_exit(number, frame)

    for number in _STOP_SIGNALS:
        signal.signal(number, stop)
    for number in processes.further_signals():
        signal.signal(number, lambda received, _frame: processes.handle_signal(received))
    processes.start()
    threaded_requests.start_monitor(_config.api.port)
    for received in _early_signals:
        worker.handle_exit(received, None)
