"""Measures other requests while sign-ins wait for a hook: `python -m tests.performance.waiting_hooks`.

Starts `manage.py serve` with its default number of processes and slots, and with a hook that hangs on demand. Times
`GET /user`, one request after the other, alternately with and without 200 sign-ins that wait for the hook, so that
other load on the machine affects both. Asserts nothing: percentiles depend on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import requests

from authsvc.db import embedded
from tests.live.servers import LiveServer
from tests.performance.bench import PASSWORD, SETTINGS, cpu_seconds

IDLE_CPU_SECONDS = 0.05
"""Of an idle server in a second."""
FUNCTION = """
    CREATE TABLE hanging (is_on bool);
    INSERT INTO hanging VALUES (false);
    CREATE FUNCTION hang(event jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        WHILE (SELECT is_on FROM hanging) LOOP PERFORM pg_sleep(0.1); END LOOP;
        RETURN jsonb_build_object('claims', event -> 'claims');
    END $$;
"""
KINDS = {
    "claims, http": ("CUSTOM_ACCESS_TOKEN", "http"),
    "claims, database function": ("CUSTOM_ACCESS_TOKEN", "pg-functions"),
    "password, http": ("PASSWORD_VERIFICATION_ATTEMPT", "http"),
    "password, database function": ("PASSWORD_VERIFICATION_ATTEMPT", "pg-functions"),
}


class Receiver(ThreadingHTTPServer):
    """A hook that changes nothing, and hangs while `released` is not set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.released = threading.Event()
        self.released.set()
        self.waiting = 0


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.waiting += 1
        self.server.released.wait(60)
        self.server.waiting -= 1
        body = json.dumps({"claims": payload.get("claims")}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def milliseconds(url: str, *, bearer: str, seconds: float) -> list[float]:
    """The times of requests on one persistent connection."""
    client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    took = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        client.request("GET", "/user", headers={"Authorization": f"Bearer {bearer}"})
        response = client.getresponse()
        response.read()
        took.append((time.perf_counter() - begun) * 1000)
        if response.status != 200:
            raise RuntimeError(f"GET /user answered {response.status}")
    client.close()
    return took


def settle(server: LiveServer) -> None:
    """Wait until the server has verified the passwords and is idle."""
    while True:
        before = cpu_seconds(server.process.pid)
        time.sleep(1)
        if cpu_seconds(server.process.pid) - before < IDLE_CPU_SECONDS:
            return


def run(name: str, *, folder: Path, database_url: str, sign_ins: int, rounds: int, seconds: float) -> None:
    hook, transport = KINDS[name]
    with receiver() as hanging, psycopg.connect(database_url, autocommit=True) as database:
        is_function = transport == "pg-functions"
        uri = "pg-functions://postgres/public/hang" if is_function else f"http://127.0.0.1:{hanging.server_port}/"
        prefix = f"AUTH_HOOK_{hook}"
        env = SETTINGS | {
            f"{prefix}_ENABLED": "true",
            f"{prefix}_URI": uri,
            f"{prefix}_TIMEOUT": "30s",
            "AUTH_API_MAX_REQUEST_DURATION": "120s",
            "WEB_CONCURRENCY": "0",  # the default
        }

        def hang(is_on: bool) -> None:
            database.execute("UPDATE hanging SET is_on = %s", [is_on])
            hanging.released.clear() if is_on else hanging.released.set()

        with (
            LiveServer(folder=folder, database_url=database_url, env=env) as server,
            ThreadPoolExecutor(200) as threads,
        ):
            database.execute(FUNCTION)

            def post(path: str, email: str) -> Any:
                return requests.post(f"{server.url}{path}", json={"email": email, "password": PASSWORD}, timeout=120)

            emails = [f"user{number}@example.com" for number in range(sign_ins)]
            for email in ("measured@example.com", *emails):
                response = post("/signup", email)
                response.raise_for_status()
            bearer = post("/token?grant_type=password", "measured@example.com").json()["access_token"]
            quiet, busy, called, statuses = [], [], 0, set()
            milliseconds(server.url, bearer=bearer, seconds=2)
            for _ in range(rounds):
                quiet += milliseconds(server.url, bearer=bearer, seconds=seconds)
                hang(True)
                waiting = [threads.submit(post, "/token?grant_type=password", email) for email in emails]
                settle(server)
                if any(future.done() for future in waiting):
                    raise RuntimeError("sign-ins did not wait")
                sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                row = database.execute(sql).fetchone()
                called = row[0] if is_function and row else hanging.waiting
                busy += milliseconds(server.url, bearer=bearer, seconds=seconds)
                if any(future.done() for future in waiting):
                    raise RuntimeError("sign-ins did not wait")
                hang(False)
                statuses |= {future.result().status_code for future in waiting}
    line = f"{name:30}{sign_ins:9}{called:9}"
    for took in (quiet, busy):
        line += f"{len(took):9}{statistics.median(took):9.2f}{statistics.quantiles(took, n=100)[98]:9.2f}"
    ratio = statistics.quantiles(busy, n=100)[98] / statistics.quantiles(quiet, n=100)[98]
    print(f"{line}{ratio:9.2f}   {sorted(statuses)}", flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description="Time GET /user while sign-ins wait for a hook.")
    parser.add_argument("--kind", choices=KINDS, help="default: all of them")
    parser.add_argument("--sign-ins", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement (default: %(default)s)")
    options = parser.parse_args()
    heads = ("requests", "p50 ms", "p99 ms") * 2
    columns = "".join(f"{head:>9}" for head in ("waiting", "called", *heads, "ratio"))
    print(f"{'hook':30}{columns}   statuses of the sign-ins")  # noqa: T201
    for name in [options.kind] if options.kind else KINDS:
        with tempfile.TemporaryDirectory(prefix="authsvc-hooks-") as text:
            folder = Path(text)
            url = embedded.start(folder / "pg")
            try:
                run(
                    name,
                    folder=folder,
                    database_url=url,
                    sign_ins=options.sign_ins,
                    rounds=options.rounds,
                    seconds=options.seconds,
                )
            finally:
                embedded.stop(folder / "pg")


if __name__ == "__main__":
    main()
