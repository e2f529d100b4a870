"""The life cycle of serving processes: how a supervisor starts them, what runs in each, which signals they handle.

A supervisor calls `preload` before it loads `authsvc.wsgi`, `freeze` before it forks, and each serving process calls
`start`. Without these calls, as under `runserver`, the process that loads the application also serves.
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
class _Group:
    """State that a supervisor shares with the processes it forks."""

    lifeline: tuple[int, int]
    """A pipe whose writing end only the supervisor keeps open: it closes when the supervisor ends."""
    leader_lock: int
    """An unnamed file; the process that has locked it is the leader. Forked processes do not inherit such locks."""
    start_functions: list[Callable[[], None]] = field(default_factory=list)


_group: _Group | None = None
_is_serving_process = False
_signal_handlers: dict[int, Callable[[], None]] = {}
"""By number, because most real-time signals have no name."""


def in_each_process(start: Callable[[], None]) -> None:
    """Call `start` once in every serving process, before its first request.

    It is called at once where the process that has loaded the application also serves.
    """
    if _group is None:
        start()
    else:
        _group.start_functions.append(start)


def on_signal(number: int, handler: Callable[[], None]) -> None:
    """Call `handler` in every serving process when one of them, or granian's supervisor, receives the signal.

    Must be called while the application is loaded. `handler` runs in a thread of its own or as a signal handler of the
    main thread, so it must not block.
    """
    _signal_handlers[number] = handler
    if _group is None and threading.current_thread() is threading.main_thread():
        signal.signal(number, lambda received, _: handle_signal(received))


def further_signals() -> frozenset[int]:
    """Signals that serving processes handle, beside those that stop them."""
    return frozenset(_signal_handlers)


def handle_signal(number: int) -> None:
    """Call the handler that `on_signal` has registered for this signal."""
    _signal_handlers[number]()


def preload() -> None:
    """Announce that this process loads the application and then forks serving processes; may be called again."""
    global _group
    if _group is not None:
        return
    malloc_trim.use_one_arena()
    _group = _Group(lifeline=os.pipe(), leader_lock=_unnamed_file())


def is_supervised() -> bool:
    """True if this process, or the one that has forked it, has called `preload`."""
    return _group is not None


def freeze() -> None:
    """Exempt all loaded objects from garbage collection, so that it does not copy pages shared with the children.

    Must be called after the application is loaded and before the first fork.
    """
    gc.collect()
    gc.freeze()


def start() -> None:
    """Call the functions of `in_each_process`. Must be called in each process that a supervisor has forked."""
    global _is_serving_process
    _is_serving_process = True
    if _group is not None:
        for function in _group.start_functions:
            function()


def is_leader() -> bool:
    """True in exactly one serving process of a server; another becomes the leader when that one has ended."""
    if _group is None:
        return True
    if not _is_serving_process:
        return False
    with contextlib.suppress(BlockingIOError, PermissionError):
        fcntl.lockf(_group.leader_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def follow_supervisor() -> None:
    """Stop once, at the first signal or when the supervisor has ended, and handle further signals.

    Must be called in the main thread of a forked process, before it has other threads. The kernel delivers a signal to
    any thread that does not block it, and Python's handlers run in the main thread when it next wakes up, which may be
    never while it waits for a lock. Therefore every thread blocks these signals and one waits for them. Without this,
    the children of a killed supervisor would stay on the port and answer with old settings.
    """
    if _group is None:
        raise RuntimeError("no supervisor has forked this process")
    receiving, sending = _group.lifeline
    os.close(sending)
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    handle_signals_in_thread(_handle)
    threading.Thread(target=_stop_after, args=(receiving,), name="stop-after-supervisor", daemon=True).start()


def handle_signals_in_thread(handle: Callable[[int], None]) -> None:
    """Block the signals of the service in this thread and later ones, and pass each to `handle` in a separate thread.

    Processes that are forked later block them from their first instruction.
    """
    numbers = STOPPING | further_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def run() -> None:
        while True:
            handle(signal.sigwait(numbers))

    threading.Thread(target=run, name="signals", daemon=True).start()


_is_stopping = False


def _handle(number: int) -> None:
    if number in _signal_handlers:
        _signal_handlers[number]()
        return
    global _is_stopping
    stop = signal.getsignal(signal.SIGTERM)
    if not callable(stop):  # the server does not listen yet
        os._exit(0)
    # Only once: a third call of granian's handler holds the interpreter lock for ever.
    if not _is_stopping:
        _is_stopping = True
        if connection_draining.refuse_new_connections():
            time.sleep(connection_draining.SECONDS)
        stop(signal.SIGTERM, None)


def _stop_after(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("authsvc")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
