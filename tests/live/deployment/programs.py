"""Runs programs from Debian packages for one test; the test is skipped if its program is missing."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import ports
from tests.live.servers import PROJECT

DEPLOY = PROJECT / "deploy"
WORKER = (str(PROJECT / "manage.py"), "worker")
"""Command of a separate worker, for `LiveServer`."""
START_SECONDS = 60
STOP_SECONDS = 60
# PgBouncer refuses to run as root, while the test's files belong to the user that runs pytest.
AS_UNPRIVILEGED_USER = (
    "setpriv",
    "--reuid=65534",
    "--clear-groups",
    "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override",
)

# On SIGTERM, PgBouncer 1.23 and later waits until each client has left.
PGBOUNCER_STOP_SIGNAL = signal.SIGINT
# Earlier versions of PgBouncer refuse prepared statements, or need another setting.
PREPARED_STATEMENTS_SINCE = (1, 24)


def find(name: str) -> Path:
    """Path of the program; if it is missing, skips the test, or fails it in CI."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not installed")
    return Path(path)


def find_recent_pgbouncer() -> Path:
    """Path of PgBouncer; of the one that `install_pgbouncer` has installed, if there is one."""
    recent = shutil.which("pgbouncer-recent")
    return Path(recent) if recent else find("pgbouncer")


def can_prepare_statements(pgbouncer: Path) -> bool:
    printed = subprocess.run([pgbouncer, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in printed.split()[1].split(".")) >= PREPARED_STATEMENTS_SINCE


def pooling_settings(*, has_prepared_statements: bool) -> dict[str, str]:
    """Settings of the service behind PgBouncer in transaction mode."""
    if has_prepared_statements:
        return {"AUTH_DB_TRANSACTION_POOLING_ENABLED": "true"}
    return {"AUTH_DB_PREPARED_STATEMENTS_ENABLED": "false"}


def replace_texts(document: str, changes: dict[str, str]) -> str:
    """The document with each key of `changes` replaced by its value; every key must occur."""
    for old, new in changes.items():
        assert old in document, old
        document = document.replace(old, new)
    return document


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    port: int,
    env: dict[str, str] | None = None,
    stop_signal: int = signal.SIGTERM,
) -> Iterator[int]:
    """Run the program during the block, once it listens on `port` of 127.0.0.1, and yield its process ID."""
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env) as process,
    ):
        try:
            deadline = time.monotonic() + START_SECONDS
            while not ports.is_listening(port):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield process.pid
        finally:
            process.send_signal(stop_signal)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
