"""Prints the cost of the library: `python -m tests.catalogclient.performance.measure`."""

from __future__ import annotations

import asyncio
import functools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import requests
from pyiceberg.catalog import load_catalog

from catalogclient import AsyncRestCatalog, RestCatalog
from tests.catalogclient.performance import peer

ROUNDS = 15
CALLS = 200
STARTS = 20
BATCH = 1_000
IN_FLIGHT = (1, 16, 256)
SNAPSHOTS = 905_000
"""Number of snapshots in a document of 250 MB."""

BARE = """
import json, requests, resource, sys
with requests.Session() as session:
    body = session.get(sys.argv[1] + "/v1/namespaces/a/tables/t" + sys.argv[2]).content
size = len(body)
document = json.loads(body)
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
OWN = """
import resource, sys
from catalogclient import RestCatalog
with RestCatalog(sys.argv[1]) as catalog:
    result = catalog.load_table_result(("a", "t" + sys.argv[2]))
print(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
UNREAD = OWN.replace("sys.argv[2])", "sys.argv[2]), raw=True")


def _cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS


def overhead(address: str) -> None:
    """CPU of `load_table` compared with the same request of a requests session, alternating in one run."""
    url = f"{address}/v1/namespaces/a/tables/t1"
    with requests.Session() as session, RestCatalog(address) as catalog:
        bare: list[float] = []
        own: list[float] = []
        for _ in range(ROUNDS):
            bare.append(_cpu(lambda: json.loads(session.get(url, timeout=60).content)))
            own.append(_cpu(lambda: catalog.load_table(("a", "t1"))))
    least_bare, least_own = min(bare), min(own)
    sys.stdout.write(
        f"load_table of a small table: {least_own * 1e6:.0f} us of CPU, bare session {least_bare * 1e6:.0f} us: "
        f"{least_own / least_bare - 1:+.1%}\n"
    )


def memory(address: str) -> None:
    """Peak resident memory for a document of 250 MB, compared with `json.loads` of it."""

    def peak(program: str) -> tuple[int, int]:
        command = [sys.executable, "-c", program, address, str(SNAPSHOTS)]
        size, kilobytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return int(size), int(kilobytes) // 1024

    size, bare = peak(BARE)
    _, own = peak(OWN)
    _, unread = peak(UNREAD)
    sys.stdout.write(
        f"document of {size / 1e6:.0f} MB: {own} MB resident at most, json.loads {bare} MB: {own / bare:.2f} times; "
        f"{unread} MB unread\n"
    )


def imports() -> None:
    """Median CPU of a program that imports the library, compared with one that imports `requests`."""
    programs = ("pass", "import catalogclient", "import requests")
    spent: dict[str, list[float]] = {program: [] for program in programs}
    for _ in range(STARTS):
        for program in programs:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", program], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[program].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    empty, own, theirs = (statistics.median(spent[program]) * 1000 for program in programs)
    sys.stdout.write(
        f"import catalogclient: {own:.0f} ms of CPU with the {empty:.0f} ms of an empty program, "
        f"import requests {theirs:.0f} ms: {own / theirs:.2f} times\n"
    )


def lists(address: str) -> None:
    """Median CPU of a list of 1,000 tables compared with the same request of a requests session, by turns."""
    url = f"{address}/v1/namespaces/a/tables"
    with requests.Session() as session, RestCatalog(address) as catalog:
        bare: list[float] = []
        own: list[float] = []
        for _ in range(ROUNDS):
            bare.append(_cpu(lambda: json.loads(session.get(url, timeout=60).content)))
            own.append(_cpu(lambda: catalog.list_tables("a")))
    ratio = statistics.median(own) / statistics.median(bare)
    sys.stdout.write(f"list_tables of {peer.PAGE_SIZE} tables: {ratio:.2f} times the bare session\n")


def concurrency(address: str) -> None:
    """CPU and calls per second of loading a small table with several calls in flight."""
    url = f"{address}/v1/namespaces/a/tables/t1"
    with requests.Session() as session, RestCatalog(address, pool_maxsize=256) as catalog:
        session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=256))
        other = load_catalog("peer", type="rest", uri=address)
        calls: dict[str, Callable[[], object]] = {
            "requests": lambda: json.loads(session.get(url, timeout=60).content),
            "RestCatalog": lambda: catalog.load_table(("a", "t1")),
            "PyIceberg": lambda: other.load_table(("a", "t1")),
        }
        for in_flight in IN_FLIGHT:
            for name, call in calls.items():
                _report(name, in_flight, functools.partial(_in_threads, call, in_flight))
            _report("AsyncRestCatalog", in_flight, functools.partial(_in_tasks, address, in_flight))


def _in_threads(call: Callable[[], object], in_flight: int) -> None:
    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(lambda _: call(), range(BATCH)))


def _in_tasks(address: str, in_flight: int) -> None:
    asyncio.run(_load_async(address, in_flight))


def _report(name: str, in_flight: int, batch: Callable[[], object]) -> None:
    results = []
    for _ in range(3):
        cpu, clock = time.process_time(), time.monotonic()
        batch()
        results.append((time.process_time() - cpu, time.monotonic() - clock))
    cpu, clock = min(results)
    cost = f"{cpu / BATCH * 1e6:6.0f} us of CPU, {BATCH / clock:6.0f} calls/s"
    sys.stdout.write(f"{in_flight:4} in flight, {name:17} {cost}\n")


async def _load_async(address: str, in_flight: int) -> None:
    limit = asyncio.Semaphore(in_flight)

    async def load(catalog: AsyncRestCatalog) -> None:
        async with limit:
            await catalog.load_table(("a", "t1"))

    async with AsyncRestCatalog(address, pool_maxsize=256) as catalog:
        await asyncio.gather(*(load(catalog) for _ in range(BATCH)))


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
        concurrency(running)
        overhead(running)
        lists(running)
        names(running)
        memory(running)
