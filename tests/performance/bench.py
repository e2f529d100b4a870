"""Load test of a server of this checkout, endpoint by endpoint: `make bench` (needs `wrk`, a Debian package).

Starts `manage.py serve` on a private database with high rate limits. CPU is the user and system time of the server's
process tree per request; it is the only value that other load on the machine hardly affects.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import requests

from authsvc.db import embedded
from tests.live.servers import LiveServer

PASSWORD = "correct horse 1"
SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "authsvc.settings",
    "AUTH_LOG_LEVEL": "error",
    "AUTH_MAILER_AUTOCONFIRM": "true",
    "AUTH_RATE_LIMIT_TOKEN_REFRESH": "1000000000",
    "AUTH_RATE_LIMIT_VERIFY": "1000000000",
    "AUTH_RATE_LIMIT_EMAIL_SENT": "1000000000",
    "AUTH_RATE_LIMIT_OTP": "1000000000",
}
LUA = """
local number, stem = 0, string.format("%d-%d", os.time(), math.random(1000000))
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = os.getenv("BENCH_BEARER")
request = function()
  number = number + 1
  local body = os.getenv("BENCH_BODY")
  return wrk.format(os.getenv("BENCH_METHOD"), nil, nil, body and body:gsub("NUMBER", stem .. "-" .. number))
end
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %f %f\\n", summary.requests,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""


def tree(root: int) -> list[int]:
    """The process `root` and its descendants."""
    children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    return [root, *(pid for child in children for pid in tree(int(child)))]


def cpu_seconds(root: int) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in tree(root)]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def measure(server: LiveServer, *, method: str, path: str, body: str, bearer: str, seconds: int) -> str:
    before = cpu_seconds(server.process.pid)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA)
        script.flush()
        variables = {
            "BENCH_METHOD": method,
            "BENCH_BEARER": f"Bearer {bearer}",
            **({"BENCH_BODY": body} if body else {}),
        }
        output = subprocess.run(
            ["wrk", "-t1", "-c16", f"-d{seconds}s", "--timeout", "20s", "-s", script.name, server.url + path],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    match = re.search(r"RESULT (\S+) (\S+) (\S+) (\S+)", output)
    if match is None:
        raise RuntimeError(output)
    number, errors, p50, p99 = (float(text) for text in match.groups())
    spent = (cpu_seconds(server.process.pid) - before) / max(number, 1) * 1000
    name = f"{method} {path}"
    return f"{name:36}{number / seconds:10.0f}{p50:10.1f}{p99:10.1f}{spent:10.2f}{errors:10.0f}"


def run(folder: Path, seconds: int) -> None:
    url = embedded.start(folder / "pg")
    try:
        with LiveServer(folder=folder, database_url=url, env=SETTINGS) as server:
            credentials = {"email": "bench@example.com", "password": PASSWORD}
            response = requests.post(f"{server.url}/signup", json=credentials, timeout=10)
            response.raise_for_status()
            print(f"{'endpoint':36}{'req/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'CPU ms':>10}{'errors':>10}")
            sign_in = f'{{"email":"bench@example.com","password":"{PASSWORD}"}}'
            sign_up = f'{{"email":"NUMBER@example.com","password":"{PASSWORD}"}}'
            for method, path, body in (
                ("GET", "/health", ""),
                ("GET", "/settings", ""),
                ("GET", "/.well-known/jwks.json", ""),
                ("GET", "/user", ""),
                ("POST", "/token?grant_type=password", sign_in),
                ("POST", "/signup", sign_up),
            ):
                bearer = response.json()["access_token"]
                print(measure(server, method=method, path=path, body=body, bearer=bearer, seconds=seconds), flush=True)
    finally:
        embedded.stop(folder / "pg")


def main() -> None:
    parser = argparse.ArgumentParser(description="Load-test a server of this checkout, endpoint by endpoint.")
    parser.add_argument("--seconds", type=int, default=5, help="per endpoint (default: %(default)s)")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is required: apt-get install wrk")
    with tempfile.TemporaryDirectory(prefix="authsvc-bench-") as folder:
        run(Path(folder), options.seconds)


if __name__ == "__main__":
    main()
