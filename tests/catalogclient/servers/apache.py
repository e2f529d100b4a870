"""Apache Iceberg's REST test server (Java). Maven fetches its jars, which are verified with `jars.lock`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import requests

from tests.catalogclient.servers import maven, process
from tests.catalogclient.servers.running import Ability, CatalogServer

SOURCES = Path(__file__).with_name("java")
LOCK = SOURCES / "jars.lock"
OLDEST_JAVA = 17


def _locked() -> dict[str, str]:
    """Return the coordinates and the SHA-256 of every jar."""
    lines = [line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    return {coordinates: digest for coordinates, digest in lines}  # noqa: C416  (pairs by shape, not by type)


_ALL = (
    Ability.WHOLE
    | Ability.ETAGS
    | Ability.REPLAY
    | Ability.STAGED_CREATE
    | Ability.CREATES_ONCE
    | Ability.ENDPOINTS
    | Ability.REGISTER_VIEW
    | Ability.CHECKS_PROPERTIES
    | Ability.HISTORY
)
_ON_DISK = _ALL | Ability.PLANNING | Ability.FILES
ABILITIES = {
    "apache": _ON_DISK,
    "apache-async": _ON_DISK | Ability.ASYNC_PLANNING,
    # The SQL database joins levels with dots. Only the in-memory catalog distinguishes all names.
    "apache-memory": _ALL,
}
"""In the order of the port arguments of CatalogServer.java."""


@contextlib.contextmanager
def serve(folder: Path, *, cache: Path) -> Iterator[dict[str, CatalogServer]]:
    """Run the three catalogs in `folder` inside the block and yield them by name."""
    java = maven.java(OLDEST_JAVA, server="Apache's server")
    jars = maven.class_path(_locked(), cache, server="Apache's server")
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    servers = {
        name: CatalogServer(name=name, base_url=f"http://127.0.0.1:{port}", abilities=abilities)
        for (name, abilities), port in zip(ABILITIES.items(), process.free_ports(len(ABILITIES)), strict=True)
    }
    command = [
        java,
        "-Xmx512m",
        # The fast compiler is sufficient for a short run.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        jars,
        str(SOURCES / "CatalogServer.java"),
        str(warehouse),
        *(server.base_url.rpartition(":")[2] for server in servers.values()),
    ]
    with process.running(command, folder=folder, is_ready=lambda: all(map(_is_ready, servers.values()))):
        yield servers


def _is_ready(server: CatalogServer) -> bool:
    try:
        return requests.get(f"{server.base_url}/v1/config", timeout=5).status_code == 200
    except requests.RequestException:
        return False
