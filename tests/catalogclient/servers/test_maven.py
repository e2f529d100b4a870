"""Tests of the download of server jars, with a script in the place of Maven."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.catalogclient.servers import maven

JAR = {"group:artifact:1": hashlib.sha256(b"jar").hexdigest()}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in front of the path for a script `mvn`."""
    result = tmp_path / "programs"
    result.mkdir()
    monkeypatch.setenv("PATH", f"{result}{os.pathsep}{os.environ['PATH']}")
    return result


def _install(programs: Path, script: str) -> None:
    program = programs / "mvn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_slow_download_skips_the_test(programs: Path, tmp_path: Path) -> None:
    _install(programs, "exec sleep 3600")
    with pytest.raises(pytest.skip.Exception, match="did not fetch the jars of Nessie"):
        maven.class_path(JAR, tmp_path, server="Nessie", seconds=0.1)


def test_a_failed_download_skips_the_test(programs: Path, tmp_path: Path) -> None:
    _install(programs, "echo unreachable; exit 1")
    with pytest.raises(pytest.skip.Exception, match=r"could not fetch the jars of Nessie.*unreachable"):
        maven.class_path(JAR, tmp_path, server="Nessie")


def test_concurrent_callers_share_a_download(programs: Path, tmp_path: Path) -> None:
    jar, calls = tmp_path / "server.jar", tmp_path / "calls"
    _install(
        programs,
        f"""
        echo call >> {calls}
        printf jar > {jar}
        for argument; do output="$argument"; done
        printf %s {jar} > "${{output#*=}}"
        """,
    )
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: maven.class_path(JAR, tmp_path, server="Nessie"), range(4)))
    assert found == [str(jar)] * 4
    assert calls.read_text() == "call\n"


def test_an_altered_jar_fails_the_test(programs: Path, tmp_path: Path) -> None:
    jar = tmp_path / "server.jar"
    jar.write_bytes(b"other")
    _install(programs, f'for argument; do output="$argument"; done; printf %s {jar} > "${{output#*=}}"')
    with pytest.raises(pytest.fail.Exception, match="other digests"):
        maven.class_path(JAR, tmp_path, server="Nessie")
