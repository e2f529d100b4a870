"""Measures the cost of telemetry: `python -m tests.performance.observed` (needs `wrk` and the extra `telemetry`).

Runs two servers on one private database, one with telemetry and one without, and loads them alternately, so that other
load on the machine affects both. Prints the CPU time per request of each server's processes. The collector, which
discards what it receives, is not included.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import requests

from authsvc.db import embedded
from tests import ports
from tests.live.servers import LiveServer
from tests.performance.bench import PASSWORD, SETTINGS, cpu_seconds
from tests.performance.million import answered, say, wrk

METRICS = {
    "AUTH_METRICS_ENABLED": "true",
    "AUTH_METRICS_EXPORTER": "prometheus",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
}
TRACES = {
    "AUTH_TRACING_ENABLED": "true",
    "AUTH_TRACING_EXPORTER": "opentelemetry",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0.1",
}
KINDS = {
    "metrics": METRICS,
    "traces": TRACES,
    "all-traces": TRACES | {"OTEL_TRACES_SAMPLER_ARG": "1"},
    "both": METRICS | TRACES,
    "none": {},
}


class _DiscardingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def collector() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _DiscardingHandler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()


def milliseconds(server: LiveServer, *, bearer: str, seconds: int) -> float:
    before = cpu_seconds(server.process.pid)
    count = answered(wrk(server, bearer, clients=16, path="/user", seconds=seconds))
    return (cpu_seconds(server.process.pid) - before) / count * 1000


def run(folder: Path, *, kind: str, rounds: int, seconds: int) -> None:
    url = embedded.start(folder / "pg")
    telemetry = {**KINDS[kind], "OTEL_EXPORTER_PROMETHEUS_PORT": str(ports.free_port())}
    try:
        with contextlib.ExitStack() as stack:
            telemetry["OTEL_EXPORTER_OTLP_ENDPOINT"] = stack.enter_context(collector())
            one, other = (folder / "off"), (folder / "on")
            one.mkdir()
            other.mkdir()
            off = stack.enter_context(LiveServer(folder=one, database_url=url, env=SETTINGS))
            on = stack.enter_context(LiveServer(folder=other, database_url=url, env=SETTINGS | telemetry))
            credentials = {"email": "bench@example.com", "password": PASSWORD}
            response = requests.post(f"{off.url}/signup", json=credentials, timeout=10)
            response.raise_for_status()
            bearer = response.json()["access_token"]
            ratios = []
            for number in range(rounds + 1):
                # The first one alternates too, because the second finds warm caches.
                first, second = (off, on) if number % 2 else (on, off)
                took = {url: milliseconds(url, bearer=bearer, seconds=seconds) for url in (first, second)}
                if number:
                    ratios.append(took[on] / took[off])
                    say(f"off {took[off]:.3f} ms, on {took[on]:.3f} ms: {ratios[-1]:.3f}")
            say(f"{kind}: median of {rounds} rounds {statistics.median(ratios):.3f}")
    finally:
        embedded.stop(folder / "pg")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare GET /user with and without telemetry.")
    parser.add_argument(
        "kind", nargs="?", choices=KINDS, default="metrics", help="what is exported (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=5, help="duration of every load (default: %(default)s)")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is needed: apt-get install wrk")
    with tempfile.TemporaryDirectory(prefix="authsvc-observed-") as folder:
        run(Path(folder), kind=options.kind, rounds=options.rounds, seconds=options.seconds)


if __name__ == "__main__":
    main()
