"""When to reload: the directory has changed and been quiet for a while, or a signal asks for it."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from django.core.exceptions import ImproperlyConfigured

from authsvc import conf
from authsvc.reloading import active_settings, folder
from authsvc.reloading.reload import Swap
from authsvc.server import processes

LONGEST_TICK = 1.0
"""Seconds between two looks while a change is waiting to become quiet."""

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

logger = logging.getLogger("authsvc.config")

_last_looks: folder.Looks | None = None
"""What the directory looked like when its files were read last; what a process made later begins with."""
_swap: Swap | None = None


def prepare() -> None:
    """To be called once, where the application is loaded; remembers what the process was started with."""
    global _last_looks, _swap
    path = conf.directory()
    if not path or _swap is not None:
        return
    active_settings.allow_change()
    _swap = Swap(Path(path))
    with contextlib.suppress(OSError, ImproperlyConfigured):
        looks = folder.looks(Path(path))
        # What has changed since these settings were read, while migrations ran, is still to be taken over.
        _last_looks = looks if conf.load() == conf.current() else None
    configured = conf.current().reloading
    if configured.signal_enabled:
        processes.on_signal(signal.Signals(configured.signal_number), _ask)


def around(application: Application) -> Application:
    """The same application, each request on the settings it began with; itself, where settings do not change."""
    if _swap is None:
        return application
    room = _swap.room

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Whether the process lives is told however busy the database is.
        is_free = environ.get("PATH_INFO") == "/health"
        with conf.keep(), contextlib.nullcontext() if is_free else room.place():
            return application(environ, start_response)

    return serve


def start() -> None:
    """Watch the directory for as long as this process lives; nothing without one."""
    global _running
    if _swap is not None:
        _running = Watcher(Path(conf.directory()), _swap, conf.current().reloading, _last_looks)
        threading.Thread(target=_running.go_on, name="reloading", daemon=True).start()


class Reloader(Protocol):
    def make(self) -> bool:
        """Take over what is in the directory, if it can be used."""
        ...


class _Bell:
    """An event that a poll can wait for, and that may be set in a signal handler."""

    def __init__(self) -> None:
        self._receiving, self._sending = os.pipe()
        for number in (self._receiving, self._sending):
            os.set_blocking(number, False)

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._sending, b"!")

    def take(self) -> bool:
        try:
            return bool(os.read(self._receiving, 4096))
        except BlockingIOError:
            return False

    def fileno(self) -> int:
        return self._receiving


class Watcher:
    """The watch of one process over one directory."""

    def __init__(self, path: Path, swap: Reloader, configured: conf.Reloading, looks: folder.Looks | None) -> None:
        """`looks`: of the directory when its files were read last."""
        self._path = path
        self._swap = swap
        self._bell = _Bell()
        self._is_stopping = False
        self.has_begun = threading.Event()
        """Set once a later change is one that must become quiet first."""
        self._configured = configured
        self._grace = configured.grace_period.total_seconds()
        self._notices: folder.Notices | None = None
        self._is_watched = configured.notify_enabled or configured.poller_enabled
        self._latest = looks
        self._changed_at: float | None = None
        self._is_missing = False

    def go_on(self) -> None:
        # A process that was made after a change begins with what its parent was started with.
        self._look()
        if self._changed_at is not None:
            self._reload()
        self.has_begun.set()
        while not self._is_stopping:
            if self._wait():
                if self._is_stopping:
                    return
                self._look()
                self._reload()
            elif self._is_watched:
                self._look()
            if self._changed_at is not None and time.monotonic() - self._changed_at >= self._grace:
                self._reload()

    def ask(self) -> None:
        """Have it reload now."""
        self._bell.ring()

    def stop(self) -> None:
        self._is_stopping = True
        self._bell.ring()

    def _wait(self) -> bool:
        """Return when there may be something to see; True when a signal asks for a reload."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        if self._notices is not None:
            poll.register(self._notices, select.POLLIN)
        seconds = self._pause()
        poll.poll(None if seconds is None else seconds * 1000)
        if self._notices is not None:
            self._notices.take()
        return self._bell.take()

    def _pause(self) -> float | None:
        """Seconds to wait at most; None for as long as nobody says anything."""
        if self._changed_at is not None:
            return min(LONGEST_TICK, max(self._grace, 0.05))
        if not self._is_watched:
            return None
        if self._is_missing:
            return max(self._grace, 0.05)
        return None if self._notices is not None else self._configured.poller_interval.total_seconds()

    def _look(self) -> None:
        """Note whether the directory has changed since the last look."""
        try:
            self._listen()
            looks = folder.looks(self._path)
        except OSError as error:
            self._miss(error)
            return
        if self._is_missing or looks != self._latest:
            self._changed_at = time.monotonic()
        self._latest = looks
        self._is_missing = False

    def _listen(self) -> None:
        """Have notices about what is at the path now, as far as they are wanted and to be had. Raises OSError."""
        if not self._configured.notify_enabled:
            return
        if self._notices is not None:
            self._notices.renew()
            return
        try:
            self._notices = folder.Notices(self._path)
        except FileNotFoundError:
            raise
        except OSError:
            if not self._configured.poller_enabled:
                raise

    def _miss(self, error: OSError) -> None:
        if not self._is_missing and processes.is_speaker():
            fields = {"error": error.strerror or str(error), "path": str(self._path)}
            logger.error("reloader: error watching config directory", extra=fields)
        self._is_missing = True
        self._changed_at = None
        if self._notices is not None:
            self._notices.close()
            self._notices = None

    def _reload(self) -> None:
        global _last_looks
        self._changed_at = None
        looks = self._latest
        self._swap.make()
        # Afterwards: a process made meanwhile has the old settings, and is to find that something has changed.
        _last_looks = looks


_running: Watcher | None = None
"""Of this process; what a child has of its parent's is replaced when it starts its own."""


def _ask() -> None:
    if _running is not None:
        _running.ask()
