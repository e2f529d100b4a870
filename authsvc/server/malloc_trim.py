"""Gives freed memory back to the system: the C library keeps it, 19 MiB for each thread that has hashed a password."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from typing import Any

EVERY_SECONDS = 30.0
_M_ARENA_MAX = -8


def keep_in_one_place() -> None:
    """Let all threads to come share one heap, the only one whose end the C library can give back.

    Python's own lock is held for most allocations, so there is no crowd at the heap's. Not by giving back each time:
    to get 19 MiB anew for every hash makes it a third slower.
    """
    library = _c_library()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, 1)


def give_back_regularly() -> None:
    """Start a thread that does so for as long as this process lives."""
    library = _c_library()
    if library is not None:
        threading.Thread(target=_go_on, args=(library,), name="give-back-memory", daemon=True).start()


def _c_library() -> Any:
    """That of GNU; None where another is used."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        return library
    return None


def _go_on(library: Any) -> None:
    while True:
        time.sleep(EVERY_SECONDS)
        library.malloc_trim(0)
