"""Prints the memory of an idle server with two processes, and the time until its first response.

`python -m tests.performance.footprint [granian|gunicorn]`. Memory is the proportional set size: pages shared by several
processes count once. An embedded PostgreSQL is excluded.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import requests

from tests.live import servers

MIB = 2**20
REST_SECONDS = 35
"""Seconds after which an idle server has released temporary memory."""


def pss(process: psutil.Process) -> int:
    """Proportional set size of the process in bytes."""
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("Pss:")]
    return int(line.split()[1]) * 1024


def processes(server: servers.LiveServer) -> list[psutil.Process]:
    """The server's processes in order of start."""
    root = psutil.Process(server.process.pid)
    return [process for process in (root, *root.children(recursive=True)) if "postgres" not in process.name()]


def total(server: servers.LiveServer) -> int:
    """Memory of all processes in bytes."""
    return sum(pss(process) for process in processes(server))


def use(server: servers.LiveServer) -> None:
    """Make serving threads hash passwords, read tokens and write rows."""
    for number in range(40):
        body = {"email": f"person{number}@example.com", "password": "correct horse battery"}
        requests.post(f"{server.url}/signup", json=body, timeout=30)
        requests.post(f"{server.url}/token?grant_type=password", json=body, timeout=30)
        requests.get(f"{server.url}/user", headers={"Authorization": "Bearer x"}, timeout=30)


def _memory_report(server: servers.LiveServer) -> Iterator[str]:
    for process in processes(server):
        yield f"{pss(process) / MIB:.0f}"
    yield f"= {total(server) / MIB:.0f} MiB"


def main(http_server: str) -> None:
    with servers.fresh_database() as url, tempfile.TemporaryDirectory() as folder:
        env = {"DJANGO_SETTINGS_MODULE": "authsvc.settings"}
        command = servers.COMMANDS[http_server]
        server = servers.LiveServer(
            folder=Path(folder), database_url=url, env=env, command=command, is_new_interpreter=True
        )
        with server:
            pass  # migrates
        started = time.monotonic()
        with server:
            print(f"first response after {time.monotonic() - started:.2f} s")
            cpu = sum(sum(process.cpu_times()[:2]) for process in processes(server))
            print(f"CPU until then {cpu:.2f} s (load {os.getloadavg()[0]:.1f})")
            time.sleep(3)
            print("at rest:", *_memory_report(server))
            use(server)
            print("after some use:", *_memory_report(server))
            time.sleep(REST_SECONDS)
            print("at rest again:", *_memory_report(server))


if __name__ == "__main__":
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    main(*sys.argv[1:2] or ["granian"])
