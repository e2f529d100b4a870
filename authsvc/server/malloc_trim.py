"""Returns freed memory to the system; the C library otherwise keeps 19 MiB per thread that has hashed a password."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from typing import Any

INTERVAL_SECONDS = 30.0
_M_ARENA_MAX = -8


def use_one_arena() -> None:
    """Let all later threads share one malloc arena, the only one that the C library can trim.

    Python's own lock is held for most allocations, so there is little contention. Memory is not returned after each
    hash, because allocating 19 MiB again for every hash makes hashing a third slower.
    """
    library = _c_library()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, 1)


def trim_regularly() -> None:
    """Start a thread that trims the arena for as long as this process lives."""
    library = _c_library()
    if library is not None:
        threading.Thread(target=_run, args=(library,), name="malloc-trim", daemon=True).start()


def _c_library() -> Any:
    """The GNU C library; None where another one is used."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        return library
    return None


def _run(library: Any) -> None:
    while True:
        time.sleep(INTERVAL_SECONDS)
        library.malloc_trim(0)
