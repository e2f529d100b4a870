"""Apache Iceberg's REST test server (Java). Maven fetches its jars, which are verified with `jars.lock`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import requests

from tests.catalogclient.servers import process
from tests.catalogclient.servers.running import Ability, CatalogServer

SOURCES = Path(__file__).with_name("java")
LOCK = SOURCES / "jars.lock"
OLDEST_JAVA = 17
MAVEN_SECONDS = 300


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java: Apache's server was not tested")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    version = said.split('"')[1].split(".")[0]
    if int(version) < OLDEST_JAVA:
        pytest.skip(f"Java {version} is older than {OLDEST_JAVA}: Apache's server was not tested")
    return java


def _locked() -> dict[str, str]:
    """Returns the coordinates and the SHA-256 of every jar."""
    lines = [line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    return {coordinates: digest for coordinates, digest in lines}  # noqa: C416  (pairs by shape, not by type)


def _pom() -> str:
    """Returns a POM with the locked jars, without their dependencies."""
    dependencies = ""
    for coordinates in _locked():
        group, artifact, version, *classifier = coordinates.split(":")
        dependencies += (
            f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(artifact)}</artifactId>"
            f"<version>{escape(version)}</version>"
            + "".join(f"<classifier>{escape(name)}</classifier>" for name in classifier)
            + "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
            "</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>catalog-server</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def class_path(cache: Path) -> str:
    """The jars of `jars.lock`, from Maven's local repository; skips the test when they cannot be had.

    Maven is asked once per content of the lock, its answer is kept in `cache`. The jars are compared every time.
    """
    kept = cache / f"class-path-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}.txt"
    if not kept.exists() or not all(Path(jar).exists() for jar in kept.read_text().split(os.pathsep)):
        _resolve(kept)
    jars = kept.read_text().strip()
    digests = {hashlib.sha256(Path(jar).read_bytes()).hexdigest() for jar in jars.split(os.pathsep)}
    if digests != set(_locked().values()):
        pytest.fail(f"Maven's jars are not those of jars.lock: {digests ^ set(_locked().values())}")
    return jars


def _resolve(kept: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("no Maven: Apache's server was not tested")
    # Two processes of a test run may be here at the same time, so each writes its own files.
    pom = kept.with_suffix(f".{os.getpid()}.xml")
    found = kept.with_suffix(f".{os.getpid()}.found")
    pom.write_text(_pom())
    command = [maven, "-B", "-q", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={found}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAVEN_SECONDS)
        if answer.returncode or not found.exists():
            pytest.skip(f"Maven could not fetch the jars of Apache's server: {answer.stdout[-500:]}")
        found.replace(kept)
    finally:
        pom.unlink()


_ALL = (
    Ability.WHOLE
    | Ability.ETAGS
    | Ability.REPLAY
    | Ability.STAGED_CREATE
    | Ability.CREATES_ONCE
    | Ability.ENDPOINTS
    | Ability.REGISTER_VIEW
)
_ON_DISK = _ALL | Ability.PLANNING | Ability.FILES
ABILITIES = {
    "apache": _ON_DISK,
    "apache-async": _ON_DISK | Ability.ASYNC_PLANNING,
    # The SQL database joins levels with dots. Only the in-memory catalog distinguishes all names.
    "apache-memory": _ALL | Ability.ANY_NAME,
}
"""In the order of the port arguments of CatalogServer.java."""


@contextlib.contextmanager
def serve(folder: Path, *, cache: Path) -> Iterator[dict[str, CatalogServer]]:
    """Runs the three catalogs in `folder` inside the block. Yields them by name."""
    java = _java()
    jars = class_path(cache)
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
