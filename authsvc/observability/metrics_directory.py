"""The directory in which the processes of one server share their metrics (prometheus_client's multiprocess mode)."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from pathlib import Path

from authsvc import conf

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "authsvc-metrics-"
_LOCK = "lock"
# Files are mapped into memory: on a full disk a write would end the process, so a memory file system is preferred.
_MEMORY_FILE_SYSTEM = Path("/dev/shm")  # noqa: S108  (mkdtemp makes a private directory in it)

logger = logging.getLogger(__name__)


def create() -> None:
    """Create the directory and name it in PROMETHEUS_MULTIPROC_DIR, unless a parent process or the operator has.

    It is removed when this process ends. Directories of servers that were killed are removed here.
    """
    environment = conf.process_environment()
    if VARIABLE in environment:
        return
    try:
        directory = _create()
    except OSError as error:
        logger.error("unable to create a directory for metrics", extra={"error": str(error)})
        return
    atexit.register(_remove, directory, creator=os.getpid())
    environment[VARIABLE] = str(directory)


def current() -> Path | None:
    """The directory; None where none could be created."""
    directory = conf.process_environment().get(VARIABLE)
    return Path(directory) if directory else None


def running_processes(directory: Path) -> list[int]:
    """Ids of the processes with metrics in `directory`; removes the gauges of those that have ended.

    Counters of ended processes stay, so that sums never decrease.
    """
    running: set[int] = set()
    for file in directory.glob("*.db"):
        process_id = int(file.stem.rpartition("_")[2])
        if process_id in running or _is_running(process_id):
            running.add(process_id)
        elif file.name.startswith("gauge_"):
            file.unlink(missing_ok=True)
    return sorted(running)


def _create() -> Path:
    parent = _MEMORY_FILE_SYSTEM if os.access(_MEMORY_FILE_SYSTEM, os.W_OK) else Path(tempfile.gettempdir())
    for leftover in parent.glob(f"{_PREFIX}*"):
        # Names may be taken by others' files, and other servers remove directories at the same time.
        with contextlib.suppress(OSError):
            if leftover.stat(follow_symlinks=False).st_uid == os.getuid() and _is_abandoned(leftover):
                shutil.rmtree(leftover, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    # Inherited by serving processes and held until the last of them ends.
    fcntl.flock(os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_SH)
    return directory


def _is_abandoned(directory: Path) -> bool:
    """True if no process uses the directory. Raises OSError where one does, or is about to."""
    descriptor = os.open(directory / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    return True


def _remove(directory: Path, *, creator: int) -> None:
    # Forked processes inherit the exit function.
    if os.getpid() == creator:
        shutil.rmtree(directory, ignore_errors=True)


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
