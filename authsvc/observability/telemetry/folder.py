"""The folder that the processes of one server share for their figures, and which one of them listens for Prometheus."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from authsvc import conf

_VARIABLE = "AUTHSVC_TELEMETRY_FOLDER"
_START = "authsvc-telemetry-"
_OWNER, _LISTENER = "owner", "listener"

# Open for as long as the process lives: the locks on them are what says that somebody lives.
_held: list[int] = []


def prepare(config: conf.Telemetry) -> None:
    """Make the folder, unless an ancestor of this process has; to be called before serving processes are made.

    Raises nothing: where none can be made, each process is on its own. Folders of servers that are gone are removed.
    """
    environment = conf.process_environment()
    if config.metrics != "prometheus" or _VARIABLE in environment:
        return
    try:
        for left in Path(tempfile.gettempdir()).glob(f"{_START}*"):
            # It may be anything by that name, or go at this moment.
            with contextlib.suppress(OSError):
                found = left.lstat()
                if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _is_free(left / _OWNER):
                    shutil.rmtree(left, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=_START))
        _hold(made / _OWNER, fcntl.LOCK_SH)
        atexit.register(_remove, made, maker=os.getpid())
        environment[_VARIABLE] = str(made)
        # Looked at when its library is loaded.
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(made)
    except OSError:
        environment[_VARIABLE] = ""


def join() -> Path:
    """The folder, which stays for as long as this process lives. Raises OSError where none could be made."""
    given = conf.process_environment().get(_VARIABLE, "")
    if not given:
        raise OSError("no folder for figures could be made; TMPDIR names a place for it")
    shared = Path(given)
    # A lock of its own: the folder must outlive a supervisor that is killed.
    _hold(shared / _OWNER, fcntl.LOCK_SH)
    return shared


def become_listener(shared: Path) -> bool:
    """Return once this process is the one that may listen for all: False at once, True when the one before has ended.

    `processes.is_speaker` will not do: a process that dies lets go of its record locks before it closes its sockets,
    and whoever waits for such a lock finds the port taken. This one goes with the sockets, if a moment before them.
    """
    try:
        _hold(shared / _LISTENER, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _hold(shared / _LISTENER, fcntl.LOCK_EX)
        return True
    return False


def _hold(lock: Path, operation: int) -> None:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        os.close(descriptor)
        raise
    _held.append(descriptor)


def _remove(made: Path, *, maker: int) -> None:
    # Forked processes have this exit function too.
    if os.getpid() == maker:
        shutil.rmtree(made, ignore_errors=True)


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return False  # being made at this moment
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
