"""The listener that Prometheus asks: the figures of all processes of this server, added up by one of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Any

from prometheus_client import CollectorRegistry, mmap_dict, multiprocess
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from authsvc import conf
from authsvc.observability import metrics
from authsvc.observability.telemetry import figures, folder, runtime

HEADER_SECONDS = 2.0
ANSWER_SECONDS = 10.0
TAKE_OVER_SECONDS = 1.0
WRITE_SECONDS = 1.0
"""How old the figures are at most when one of the processes answers."""

_PAST = "past"
"""What stands for the process's id in the file into which those of ended processes go."""

# Both without types.
_File: Any = mmap_dict.MmapedDict
_Collector: Any = multiprocess.MultiProcessCollector

logger = logging.getLogger(__name__)


def start(config: conf.Telemetry) -> Callable[[], None]:
    """Keep figures, and listen as soon as no other process of this server does. Raises OSError."""
    shared = folder.join()
    figures.keep_in_files(shared)
    kept = figures.Figures()
    metrics.keep_in(kept)
    ended = threading.Event()
    writing = threading.Thread(target=_write, args=(kept, ended), name="figures", daemon=True)
    writing.start()
    threading.Thread(target=_listen, args=(config, shared, ended), name="metrics-listener", daemon=True).start()

    def stop() -> None:
        ended.set()
        writing.join()

    return stop


def _write(kept: figures.Figures, ended: threading.Event) -> None:
    measured = runtime.Runtime()
    is_last = False
    while not is_last:
        is_last = ended.wait(WRITE_SECONDS)
        measured.record()
        kept.write()


def _listen(config: conf.Telemetry, shared: Path, ended: threading.Event) -> None:
    takes_over = folder.become_listener(shared)
    address = (config.prometheus_host, config.prometheus_port)
    deadline = time.monotonic() + (TAKE_OVER_SECONDS if takes_over else 0)
    while True:
        if takes_over and ended.is_set():
            return
        try:
            listener = _Listener(address, page=Page(shared))
            break
        except OSError as error:
            if time.monotonic() > deadline:
                logger.error("unable to start metrics listener", extra={"error": str(error)})
                return
        # A process that ends closes its lock a moment before its port.
        ended.wait(0.05)
    threading.Thread(target=listener.serve_forever, args=(0.1,), name="metrics", daemon=True).start()
    logger.info("prometheus server listening on %s:%d", *address)
    ended.wait()
    listener.shutdown()
    listener.server_close()


class Page:
    """The text that Prometheus reads."""

    def __init__(self, shared: Path) -> None:
        self._folder = shared
        self._one_at_a_time = threading.Lock()

    def render(self) -> bytes:
        with self._one_at_a_time:
            _put_aside(self._folder)
            return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        helps = {figures.prometheus_name(each.name, each.unit): each.help for each in metrics.instruments()}
        for family in _Collector(CollectorRegistry(), path=str(self._folder)).collect():
            family.documentation = helps.get(family.name, "")
            yield family
        for gauge in metrics.gauges:
            yield from _families(gauge())


def _families(readings: Iterable[metrics.Reading]) -> Iterable[GaugeMetricFamily]:
    found: dict[str, GaugeMetricFamily] = {}
    for reading in readings:
        name = figures.prometheus_name(reading.name, reading.unit)
        family = found.setdefault(
            name, GaugeMetricFamily(name, reading.help, labels=[label for label, _ in reading.labels])
        )
        family.add_metric([value for _, value in reading.labels], reading.value)
    return found.values()


def _put_aside(shared: Path) -> None:
    """Add what ended processes have counted to one file, and forget what they had in hand.

    Only whoever listens for all does this, between two answers.
    """
    for file in shared.glob("*.db"):
        kind, _, pid = file.stem.rpartition("_")
        if pid == _PAST or _is_alive(int(pid)):
            continue
        if kind in ("counter", "histogram"):
            past = _File(str(shared / f"{kind}_{_PAST}.db"))
            try:
                for key, value, _time, _position in _File.read_all_values_from_file(str(file)):
                    past.write_value(key, past.read_value(key)[0] + value, 0.0)
            finally:
                past.close()
        file.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], *, page: Page) -> None:
        self.page = page
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        super().__init__(address, _Answering)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked and went is no error."""


class _Answering(BaseHTTPRequestHandler):
    # For whoever asks and does not read what comes.
    timeout = ANSWER_SECONDS
    server: _Listener
    server_version = "authsvc"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        # For the head as a whole: a time-out of the socket begins anew with every byte.
        self._too_slow = threading.Timer(HEADER_SECONDS, self._hang_up)
        self._too_slow.daemon = True
        self._too_slow.start()

    def parse_request(self) -> bool:
        try:
            return super().parse_request()
        finally:
            self._too_slow.cancel()

    def finish(self) -> None:
        self._too_slow.cancel()
        super().finish()

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/":
            self.send_error(404)
            return
        text = self.server.page.render()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: somebody asks every few seconds."""

    def _hang_up(self) -> None:
        try:
            self.connection.shutdown(2)
        except OSError:
            return
