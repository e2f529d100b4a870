"""The life of serving processes: how a supervisor makes them, what starts in each, which signals they obey.

A supervisor calls `preload` before it loads `authsvc.wsgi`, `freeze` before it makes its processes, and each of those
calls `begin`. Where none of this happens, as under `runserver`, the process that loads the application serves itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from authsvc.server import connection_draining, malloc_trim

STOPPING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""Signals that end the service once running requests are answered."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Family:
    """What a supervisor and the processes it makes have in common."""

    lifeline: tuple[int, int]
    """A pipe whose writing end the supervisor alone keeps open: its end is that of the supervisor."""
    ballot: int
    """A file without a name; whoever has it locked speaks for all. Such locks are not inherited."""
    starts: list[Callable[[], None]] = field(default_factory=list)


_family: _Family | None = None
_is_made = False
_acts: dict[signal.Signals, Callable[[], None]] = {}


def in_each_process(start: Callable[[], None]) -> None:
    """Have `start` called once in every process that serves, before its first request.

    At once, where the process that has loaded the application serves by itself.
    """
    if _family is None:
        start()
    else:
        _family.starts.append(start)


def on_signal(number: signal.Signals, then: Callable[[], None]) -> None:
    """Have `then` called in every serving process when one of them, or granian's supervisor, gets the signal.

    To be called while the application is loaded. `then` runs in a thread of its own or in the main thread, so it must
    only set something.
    """
    _acts[number] = then
    if _family is None and threading.current_thread() is threading.main_thread():
        signal.signal(number, lambda received, _: act(received))


def further_signals() -> frozenset[signal.Signals]:
    """Signals that mean something to serving processes, beside those that end them."""
    return frozenset(_acts)


def act(number: int) -> None:
    """Do what `on_signal` was told for this signal."""
    _acts[signal.Signals(number)]()


def preload() -> None:
    """This process will load the application and then make the ones that serve; may be called again."""
    global _family
    if _family is not None:
        return
    malloc_trim.keep_in_one_place()
    _family = _Family(lifeline=os.pipe(), ballot=_nameless_file())


def freeze() -> None:
    """To be called between loading and making: lets the garbage collector of the children leave shared pages alone."""
    gc.collect()
    gc.freeze()


def begin() -> None:
    """In a process that a supervisor has made: do what was to be done in each."""
    global _is_made
    _is_made = True
    if _family is not None:
        for start in _family.starts:
            start()


def is_leader() -> bool:
    """True in exactly one of the serving processes of a server; another takes over when that one has ended."""
    if _family is None:
        return True
    if not _is_made:
        return False
    with contextlib.suppress(BlockingIOError, PermissionError):
        fcntl.lockf(_family.ballot, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def obey_supervisor() -> None:
    """Stop once, at the first signal or when the supervisor is gone, and act on further signals.

    To be called in the main thread of a process just made, before it has other threads. The kernel hands a signal to
    any thread that does not block it, and Python's handlers run in the main thread when that next wakes up, which may
    be never while it waits for a lock. So every thread blocks these signals and one waits for them. A killed supervisor
    would otherwise leave its children on the port, answering with old settings.
    """
    if _family is None:
        raise RuntimeError("no supervisor has made this process")
    receiving, sending = _family.lifeline
    os.close(sending)
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    take_signals(_heed)
    threading.Thread(target=_stop_after, args=(receiving,), name="stop-after-supervisor", daemon=True).start()


def take_signals(heed: Callable[[signal.Signals], None]) -> None:
    """Block the signals of the service in this thread, and so in later ones, and give each to `heed` in one of its own.

    What is made by forking blocks them from its first moment.
    """
    numbers = STOPPING | further_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def take() -> None:
        while True:
            heed(signal.Signals(signal.sigwait(numbers)))

    threading.Thread(target=take, name="signals", daemon=True).start()


_told_to_stop = False


def _heed(number: signal.Signals) -> None:
    if number in _acts:
        _acts[number]()
        return
    global _told_to_stop
    stop = signal.getsignal(signal.SIGTERM)
    if not callable(stop):  # nothing is being served yet
        os._exit(0)
    # Once only: granian's handler holds the interpreter lock for ever when it is called a third time.
    if not _told_to_stop:
        _told_to_stop = True
        if connection_draining.close_door():
            time.sleep(connection_draining.SECONDS)
        stop(signal.SIGTERM, None)


def _stop_after(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("authsvc")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
