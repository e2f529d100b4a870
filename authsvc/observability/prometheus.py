"""The listener for Prometheus: the metrics of all serving processes, on one port that they share."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector

from authsvc import conf
from authsvc.observability import metrics, metrics_directory

HEADER_SECONDS = 2.0
RESPONSE_SECONDS = 10.0

_socket: socket.socket | None = None
logger = logging.getLogger(__name__)


def listen(config: conf.Telemetry) -> None:
    """Open the port, before serving processes are forked: all of them inherit it and answer. Raises OSError."""
    global _socket
    family = socket.AF_INET6 if ":" in config.prometheus_host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.prometheus_host, config.prometheus_port))
        listener.listen()
    except OSError as error:
        listener.close()
        # The text of the error then names the port.
        raise OSError(error.errno, error.strerror, f"{config.prometheus_host}:{config.prometheus_port}") from None
    # Several processes are woken by one connection; those that come too late must not block.
    listener.setblocking(False)
    _socket = listener
    logger.info("prometheus server listening on %s:%d", config.prometheus_host, config.prometheus_port)


def start(target: dict[str, str]) -> None:
    """Answer on the open port in this process; `target` are the labels of `target_info`."""
    if _socket is None:
        raise RuntimeError("the port has not been opened")
    directory = metrics_directory.current()
    if directory is None:
        return
    server = _Server(_socket, build_registry(directory, target))
    threading.Thread(target=server.serve_forever, name="prometheus", daemon=True).start()


def build_registry(directory: Path, target: dict[str, str]) -> CollectorRegistry:
    """The metrics of all processes that share `directory`, and those of the installation."""
    registry = CollectorRegistry(target_info={name.replace(".", "_"): value for name, value in target.items()})
    MultiProcessCollector(registry, path=str(directory))  # type: ignore[no-untyped-call]  # the library's
    registry.register(_ProcessesCollector(directory))
    for collector in metrics.installation_collectors:
        registry.register(collector)
    return registry


class _ProcessesCollector:
    """CPU, memory and files of each serving process, labelled with its process id."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for process_id in metrics_directory.running_processes(self._directory):
            collector = ProcessCollector(pid=partial(str, process_id), registry=None)
            for family in collector.collect():
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    merged.add_sample(sample.name, {**sample.labels, "pid": str(process_id)}, sample.value)
        yield from families.values()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, registry: CollectorRegistry) -> None:
        handler = _Handler.factory(registry)
        super().__init__(listener.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failed scrape, such as one that the client gave up."""
        logger.debug("scrape failed", extra={"error": repr(sys.exc_info()[1])})


class _Handler(MetricsHandler):
    """Serves `/` alone, and closes connections that do not send their request in time."""

    timeout = RESPONSE_SECONDS
    server_version = "authsvc"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        # A socket timeout would start again with every byte of the request.
        self._deadline = threading.Timer(HEADER_SECONDS, self._close)
        self._deadline.daemon = True
        self._deadline.start()

    def parse_request(self) -> bool:
        try:
            return super().parse_request()
        finally:
            self._deadline.cancel()

    def finish(self) -> None:
        self._deadline.cancel()
        super().finish()

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def do_GET(self) -> None:  # noqa: N802  (the library's name)
        if self.path.partition("?")[0] == "/":
            super().do_GET()
        else:
            self.send_error(404)

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
