"""Processes of a running server."""

from __future__ import annotations

import contextlib

import psutil

from tests.live.servers import LiveServer
from tests.timeouts import wait_until


def descendants(server: LiveServer) -> list[psutil.Process]:
    """All existing child processes of the server."""
    return list(psutil.Process(server.process.pid).children(recursive=True))


def serving_processes(server: LiveServer) -> list[psutil.Process]:
    """Processes that handle requests, oldest first: only these have threads."""
    return [process for process in sorted(descendants(server), key=_age) if _runs(process) and _has_threads(process)]


def all_serving_processes(server: LiveServer) -> list[psutil.Process]:
    """As `serving_processes`, once as many exist as `LiveServer` starts. `/health` answers after the first one."""
    wait_until(lambda: len(serving_processes(server)) == 2, "two serving processes")
    return serving_processes(server)


def are_gone(processes: list[psutil.Process]) -> bool:
    """Return True if none of these processes runs any more; zombies count as gone."""
    return not any(_runs(process) for process in processes)


def _age(process: psutil.Process) -> float:
    return float(process.create_time())


def _has_threads(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.num_threads() > 1)
    return False


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
