"""Starts and stops a server process on free ports."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

START_SECONDS = 90
STOP_SECONDS = 30


def free_ports(count: int, *, beside: int = 0) -> list[int]:
    """Return ports without a listener. With `beside`, the port that much higher is free too.

    They lie below the range from which the system gives ports to clients, so that none is taken before its server
    starts.
    """
    result: set[int] = set()
    while len(result) < count:
        port = random.randrange(11_000, 22_000)
        if _is_free(port) and (not beside or _is_free(port + beside)):
            result.add(port)
    return list(result)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextlib.contextmanager
def running(
    command: Sequence[str], *, folder: Path, is_ready: Callable[[], bool], env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run `command` in `folder` inside the block, which is entered when `is_ready()` returns True."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(process, is_ready=is_ready, log=log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], *, is_ready: Callable[[], bool], log: Path) -> None:
    give_up = time.monotonic() + START_SECONDS
    while not is_ready():
        if process.poll() is not None or time.monotonic() > give_up:
            output = log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{Path(process.args[0]).name} did not start:\n{output}")  # type: ignore[index, arg-type]
        time.sleep(0.05)
