"""Changes of the configuration directory: what its files look like, and the kernel's word that there is something."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Mapping
from pathlib import Path

MOST_ENTRIES = 1000

Looks = Mapping[str, tuple[int, int, int, int]]
"""Name of each file that counts → its number, size, mode and time of change."""

# inotify(7): entries made, written, moved, removed or given other rights, and the same of the directory itself.
_IN_MODIFY, _IN_ATTRIB, _IN_CLOSE_WRITE = 0x2, 0x4, 0x8
_IN_MOVED, _IN_CREATE, _IN_DELETE = 0x40 | 0x80, 0x100, 0x200
_IN_DELETE_SELF, _IN_MOVE_SELF = 0x400, 0x800
_ANYTHING = (
    _IN_MODIFY | _IN_ATTRIB | _IN_CLOSE_WRITE | _IN_MOVED | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF
)
_EVENTS = 65_536


def looks(folder: Path) -> Looks:
    """What tells one state of the directory from another. Links are followed, as volumes of Kubernetes have them.

    Raises OSError, also for a directory with more than 1000 entries.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    if len(names) > MOST_ENTRIES:
        raise OSError(None, f"more than {MOST_ENTRIES} entries", str(folder))
    found = {}
    for name in names:
        if name.endswith((".env", ".json")):
            # One that goes while we look is a change as well, seen the next time.
            with contextlib.suppress(FileNotFoundError):
                state = (folder / name).stat()
                if not stat.S_ISDIR(state.st_mode):
                    found[name] = (state.st_ino, state.st_size, state.st_mode, state.st_mtime_ns)
    return found


class Notices:
    """The kernel's notices about one directory, as a file that can be read when there are some (Linux)."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError where there are no such notices to be had."""
        self._folder = os.fsencode(folder)
        try:
            self._library = ctypes.CDLL(None, use_errno=True)
            self._number: int = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (AttributeError, TypeError):
            raise OSError(None, "no notices of file systems on this system") from None
        if self._number < 0:
            raise _last_error()
        try:
            self.renew()
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        return self._number

    def renew(self) -> None:
        """Ask for notices about what is at the path now, which may be another directory. Raises OSError."""
        if self._library.inotify_add_watch(self._number, ctypes.c_char_p(self._folder), ctypes.c_uint32(_ANYTHING)) < 0:
            raise _last_error()

    def take(self) -> None:
        """Take what has come; it does not matter what."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._number, _EVENTS)

    def close(self) -> None:
        os.close(self._number)


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
