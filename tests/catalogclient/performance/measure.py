"""Prints what the library costs: `python -m tests.catalogclient.performance.measure`."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import requests

from catalogclient import RestCatalog
from tests.catalogclient.performance import peer

ROUNDS = 15
CALLS = 200
STARTS = 20
SNAPSHOTS = 905_000
"""As many as make a document of 250 MB."""

BARE = """
import json, requests, resource, sys
with requests.Session() as session:
    body = session.get(sys.argv[1] + "/v1/namespaces/a/tables/t" + sys.argv[2]).content
size = len(body)
document = json.loads(body)
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
OURS = """
import resource, sys
from catalogclient import RestCatalog
with RestCatalog(sys.argv[1]) as catalog:
    result = catalog.load_table_result(("a", "t" + sys.argv[2]))
print(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
UNREAD = OURS.replace("sys.argv[2])", "sys.argv[2]), raw=True")


def _cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS


def overhead(address: str) -> None:
    """CPU of `load_table` beside the same request by a bare session, alternating in one run."""
    url = f"{address}/v1/namespaces/a/tables/t1"
    with requests.Session() as session, RestCatalog(address) as catalog:
        bare: list[float] = []
        ours: list[float] = []
        for _ in range(ROUNDS):
            bare.append(_cpu(lambda: json.loads(session.get(url, timeout=60).content)))
            ours.append(_cpu(lambda: catalog.load_table(("a", "t1"))))
    least_bare, least_ours = min(bare), min(ours)
    sys.stdout.write(
        f"load_table of a small table: {least_ours * 1e6:.0f} us of CPU, bare session {least_bare * 1e6:.0f} us: "
        f"{least_ours / least_bare - 1:+.1%}\n"
    )


def memory(address: str) -> None:
    """Largest resident memory for a document of 250 MB, beside `json.loads` of it."""

    def peak(program: str) -> tuple[int, int]:
        command = [sys.executable, "-c", program, address, str(SNAPSHOTS)]
        size, kilobytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return int(size), int(kilobytes) // 1024

    size, bare = peak(BARE)
    _, ours = peak(OURS)
    _, unread = peak(UNREAD)
    sys.stdout.write(
        f"document of {size / 1e6:.0f} MB: {ours} MB resident at most, json.loads {bare} MB: {ours / bare:.2f} times; "
        f"{unread} MB unread\n"
    )


def imports() -> None:
    """CPU of a program that imports the library and no more, beside one that imports `requests`: medians."""
    programs = ("pass", "import catalogclient", "import requests")
    spent: dict[str, list[float]] = {program: [] for program in programs}
    for _ in range(STARTS):
        for program in programs:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", program], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[program].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    empty, ours, theirs = (statistics.median(spent[program]) * 1000 for program in programs)
    sys.stdout.write(
        f"import catalogclient: {ours:.0f} ms of CPU with the {empty:.0f} ms of an empty program, "
        f"import requests {theirs:.0f} ms: {ours / theirs:.2f} times\n"
    )


def names(address: str) -> None:
    with RestCatalog(address) as catalog:
        start = time.process_time()
        count = sum(1 for _ in catalog.iter_tables("a"))
        seconds = time.process_time() - start
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(f"{count} tables over {peer.PAGES} pages: {seconds:.1f} s of CPU, {resident} MB resident\n")


if __name__ == "__main__":
    imports()
    with peer.serve() as running:
        overhead(running)
        names(running)
        memory(running)
