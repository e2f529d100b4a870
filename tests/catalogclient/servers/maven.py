"""Java programs of catalog servers: finds a Java runtime, and fetches jars with Maven and verifies them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn
from xml.sax.saxutils import escape

import pytest

FETCH_SECONDS = 100.0
"""Limit for the download of all jars of a server. With the start of the server it is below the timeout of a test."""


def java(oldest: int, *, server: str) -> str:
    """Return the path of a Java runtime of version `oldest` or later. Skip the test if there is none."""
    for program in _runtimes():
        output = subprocess.run([program, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
        if int(output.split('"')[1].split(".")[0]) >= oldest:
            return program
    pytest.skip(f"no Java {oldest} or later: {server} was not tested")


def _runtimes() -> Iterator[str]:
    """Yield the runtimes on the path, in JAVA_HOME and where Linux distributions install them."""
    homes = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    on_path = shutil.which("java")
    if on_path:
        yield on_path
    for home in [*homes, *sorted(Path("/usr/lib/jvm").glob("*"))]:
        program = home / "bin" / "java"
        if program.exists():
            yield str(program)


def class_path(jars: Mapping[str, str], cache: Path, *, server: str, seconds: float = FETCH_SECONDS) -> str:
    """Return the class path of `jars` in Maven's local repository.

    `jars` maps `group:artifact:version[:classifier]` to the SHA-256 of the jar. Maven runs once per content of `jars`,
    and its result is stored in `cache`. The jars are verified every time. Skip the test if Maven cannot fetch them
    within `seconds`. Test processes that need the same jars wait for one download.
    """
    give_up = time.monotonic() + seconds
    stored = cache / f"class-path-{hashlib.sha256(repr(sorted(jars.items())).encode()).hexdigest()[:16]}.txt"
    with _locked(stored.with_suffix(".lock"), give_up, server=server):
        if not stored.exists() or not all(Path(jar).exists() for jar in stored.read_text().split(os.pathsep)):
            _resolve(jars, stored, give_up, server=server)
    result = stored.read_text().strip()
    digests = {_digest(Path(jar)) for jar in result.split(os.pathsep)}
    if digests != set(jars.values()):
        pytest.fail(f"the jars of {server} have other digests: {digests ^ set(jars.values())}")
    return result


def _digest(jar: Path) -> str:
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _pom(jars: Mapping[str, str]) -> str:
    """Return a POM with the jars, without their dependencies."""
    dependencies = ""
    for coordinates in jars:
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


@contextlib.contextmanager
def _locked(file: Path, give_up: float, *, server: str) -> Iterator[None]:
    """Hold the lock of `file` inside the block. Skip the test if another process holds it until `give_up`."""
    with file.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    _skip_slow(server)
                time.sleep(0.05)
        yield


def _resolve(jars: Mapping[str, str], stored: Path, give_up: float, *, server: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"no Maven: {server} was not tested")
    pom, output = stored.with_suffix(".xml"), stored.with_suffix(".output")
    pom.write_text(_pom(jars))
    command = [maven, "-B", "-q", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
    try:
        remaining = max(0.0, give_up - time.monotonic())
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=remaining)
    except subprocess.TimeoutExpired:
        _skip_slow(server)
    if result.returncode or not output.exists():
        pytest.skip(f"Maven could not fetch the jars of {server}, which was not tested: {result.stdout[-500:]}")
    output.replace(stored)


def _skip_slow(server: str) -> NoReturn:
    pytest.skip(f"Maven did not fetch the jars of {server} in time: {server} was not tested")
