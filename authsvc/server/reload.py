"""Applies changes of the configuration directory (`--config-dir`) while the service runs.

`prepare` is called where the application is loaded, `start` in every process. A watcher thread waits until the
directory has changed and then been quiet for the grace period, or for a signal. Then the settings are read and checked
as at a start, and replace those of later requests and jobs. Without a configuration directory nothing happens.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import watchfiles
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection

from authsvc import conf
from authsvc.api.throttling import Bucket
from authsvc.conf import loading, value_types
from authsvc.conf.declaration import settings_of
from authsvc.messaging import quotas
from authsvc.security import rate_limits
from authsvc.server import processes, serving
from authsvc.server.request_slots import RequestSlots

MAX_ENTRIES = 1000
SETTINGS = "authsvc.settings"
"""Key of the WSGI environment: the settings that a request started with, at the arrival of its headers."""
_CHECKED = (checks.Tags.compatibility, checks.Tags.security, checks.Tags.templates)
_MESSAGE_LIMITS = {field: quotas.buckets_of(field) for field in ("email_sent", "sms_sent", "operator_messages")}
_LIMIT_VARIABLES = {place.path[-1]: place.setting.documented_name for place in settings_of(conf.Limits)}
_MAX_STEP_SECONDS = 0.5
_MIN_GRACE_SECONDS = 0.05

Content = Mapping[str, str] | str
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

logger = logging.getLogger("authsvc.config")
# It logs every change at level info.
logging.getLogger("watchfiles.main").setLevel(logging.WARNING)

_reloader: Reloader | None = None
_watcher: Watcher | None = None
"""The watcher of this process. A forked child inherits that of its parent and replaces it."""


def prepare(slots: RequestSlots) -> None:
    """Remember the settings the process was started with; called once, where the application is loaded.

    The number of `slots` follows DB_MAX_POOL_SIZE.
    """
    global _reloader
    folder, config = conf.directory(), conf.current().reloading
    if _reloader is not None:
        return
    # Without a handler the signal would end the process.
    processes.on_signal(signal.SIGUSR1, _ignore_signal)
    if not folder:
        return
    _reloader = Reloader(Path(folder), slots)
    _initialize_watchfiles(folder)
    if config.signal_enabled:
        processes.on_signal(config.signal_number, _request_reload)


def _initialize_watchfiles(folder: str) -> None:
    """Use watchfiles once, before there are threads.

    It initializes global state at its first use. A process that is forked during that, from another thread, would wait
    for its end for ever.
    """
    watch = watchfiles.watch(
        folder, recursive=False, step=1, rust_timeout=1, yield_on_timeout=True, stop_event=threading.Event()
    )
    # A directory that cannot be watched is logged by the watcher.
    with contextlib.suppress(OSError, RuntimeError), contextlib.closing(watch):
        next(watch)


def start() -> None:
    """Watch the directory for as long as this process lives."""
    global _watcher
    if _reloader is not None:
        _watcher = Watcher(Path(conf.directory()), _reloader, conf.current().reloading)
        threading.Thread(target=_watcher.run, name="reload", daemon=True).start()


def keep_settings(application: Application) -> Application:
    """The application with each request on the settings it started with."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with conf.keep(environ.get(SETTINGS)):
            return application(environ, start_response)

    return serve


def _request_reload() -> None:
    if _watcher is not None:
        _watcher.request_reload()


def _ignore_signal() -> None:
    if processes.is_leader():
        logger.warning("reloader: signal ignored", extra={"error": _reason_without_reload()})


def _reason_without_reload() -> str:
    config = conf.current().reloading
    missing = [] if config.signal_enabled else ["set AUTH_RELOADING_SIGNAL_ENABLED=true"]
    if not conf.directory():
        missing.append("start with --config-dir")
    return " and ".join(missing) or f"AUTH_RELOADING_SIGNAL_NUMBER is {config.signal_number}"


class _Rejected(Exception):
    """The directory cannot be read or its settings cannot be used; the message shows no secret."""


def read_content(folder: Path) -> Content:
    """The variables in the directory, or the reason why it cannot be read."""
    try:
        if sum(1 for _ in folder.iterdir()) > MAX_ENTRIES:
            return f"more than {MAX_ENTRIES} entries"
        return conf.read_directory(folder)
    except OSError as error:
        return error.strerror or "cannot be read"
    except ValueError as error:
        return str(error)


class Reloader:
    """Reads the directory and replaces the settings of this process.

    A variable that is removed from the files keeps its last value until a restart.
    """

    def __init__(self, folder: Path, slots: RequestSlots) -> None:
        self._slots = slots
        # Threads and processes are started once: a larger limit than at the start needs a restart.
        self._max_slots = slots.size
        self._processes = serving.processes(conf.newest())
        self._folder = folder
        self._base = conf.without_directory()
        self.last_content = read_content(folder)
        """The content of the directory when it was read last."""
        # A directory that cannot be read has been logged and did not stop the start.
        self._overlay = {} if isinstance(self.last_content, str) else dict(self.last_content)
        with contextlib.suppress(ImproperlyConfigured):
            if conf.load() == conf.newest():
                return
        # The files have changed since the settings were read, while migrations ran: the first reload applies them.
        self.last_content = ""

    def reload(self, *, force: bool = False) -> bool:
        """Apply the directory. Returns False where it is unchanged or missing, or cannot be used, which is logged."""
        if not (force or self._folder.is_dir()):
            return False
        content = read_content(self._folder)
        if content == self.last_content and not force:
            return False
        self.last_content = content
        try:
            if isinstance(content, str):
                raise _Rejected(content)
            overlay = {**self._overlay, **content}
            new = _load_checked({**self._base, **overlay})
            self._check_connections(new)
        except _Rejected as error:
            if processes.is_leader():
                logger.error("reloader: error loading config", extra={"error": str(error)})
            return False
        old = conf.newest()
        new, postponed = loading.keep_until_restart(new, old)
        settings.AUTH = new
        self._slots.resize(min(self._max_slots, serving.threads_of(new, processes=self._processes)))
        self._overlay = overlay
        if processes.is_leader():
            logger.info("reloading api with new configuration")
            for variable in postponed:
                logger.warning("a changed setting takes effect after a restart", extra={"setting": variable})
            conf.log_notices(new.notices)
            with self._slots.hold():
                _reset_limiters(old.limits, new.limits)
        return True

    def _check_connections(self, config: conf.AuthConfig) -> None:
        """Raises _Rejected when DB_MAX_POOL_SIZE is too small for the running processes."""
        if serving.threads_of(config, processes=self._processes) < 1:
            smallest = self._processes * (1 + config.background_connections)
            raise _Rejected(
                f"AUTH_DB_MAX_POOL_SIZE: must be at least {smallest} while {self._processes} processes run,"
                f" was {config.database.max_pool_size}"
            )


def _load_checked(variables: Mapping[str, str]) -> conf.AuthConfig:
    """Settings that a start would accept: their own rules, and the system checks that depend on them."""
    try:
        new = conf.load_merged(variables)
    except ImproperlyConfigured as error:
        raise _Rejected("; ".join(str(error).splitlines())) from None
    with conf.keep(new):
        messages = checks.run_checks(tags=_CHECKED)
        problems = [message for message in messages if message.is_serious() and not message.is_silenced()]
    if problems:
        raise _Rejected("; ".join(str(problem.msg) for problem in problems))
    return new


def _reset_limiters(old: conf.Limits, new: conf.Limits) -> None:
    """Reset the counters of the limits that have changed; the others continue."""
    changed = list(_changed_limits(old, new))
    for bucket, field in changed:
        old_rate, new_rate = (value_types.RATE.format(getattr(limits, field)) for limits in (old, new))
        variable = _LIMIT_VARIABLES[field]
        logger.info(
            "env %s changed, updating %s limiter from %s to %s",
            variable,
            bucket,
            old_rate,
            new_rate,
            extra={
                "rate_limit_field": field,
                "rate_limit_env": variable,
                "rate_limit_old": old_rate,
                "rate_limit_new": new_rate,
            },
        )
    if not changed:
        return
    try:
        rate_limits.reset(name for bucket, _ in changed for name in _MESSAGE_LIMITS.get(bucket, (bucket,)))
    except DatabaseError as error:
        logger.warning("counters of changed limits are not reset", extra={"error": str(error)})
    finally:
        connection.close()


def _changed_limits(old: conf.Limits, new: conf.Limits) -> Iterator[tuple[str, str]]:
    """Bucket and field of each limiter whose limit has changed."""
    fields = [(name, name) for name in _MESSAGE_LIMITS] + [(bucket.value, bucket.field) for bucket in Bucket]
    return ((bucket, field) for bucket, field in fields if getattr(old, field) != getattr(new, field))


class _Reason(Enum):
    STOP = "stop"
    REQUEST = "request"
    CHANGE = "change"


class Watcher:
    """Watches one directory in a thread and has its changes applied."""

    def __init__(self, folder: Path, reloader: Reloader, config: conf.Reloading) -> None:
        self._folder = folder
        self._reloader = reloader
        self._config = config
        self._grace = max(config.grace_period.total_seconds(), _MIN_GRACE_SECONDS)
        # Its `put` is reentrant, so a signal handler may call it.
        self._requests: SimpleQueue[_Reason] = SimpleQueue()
        self._notifications: Iterator[set[Any]] | None = None
        self._identity: tuple[int, int] | None = None
        self._is_missing = False

    def request_reload(self) -> None:
        self._requests.put(_Reason.REQUEST)

    def stop(self) -> None:
        self._requests.put(_Reason.STOP)

    def is_set(self) -> bool:
        """Tell watchfiles, which takes this object as its `stop_event`, to end the wait."""
        return not self._requests.empty()

    def run(self) -> None:
        # A process that was started after a change has the settings of its parent.
        self._reloader.reload()
        while (reason := self._wait()) is not _Reason.STOP:
            if reason is not None:
                self._reloader.reload(force=reason is _Reason.REQUEST)

    def _wait(self) -> _Reason | None:
        """Return when the directory may have changed and has been quiet for the grace period, or at a request."""
        if not (self._config.notify_enabled or self._config.poller_enabled):
            return self._requests.get()
        try:
            status = self._folder.stat()
            was_missing, self._is_missing = self._is_missing, False
            if was_missing:
                self._notifications = None
                return _Reason.CHANGE
            if self._config.notify_enabled:
                return self._wait_for_notification((status.st_dev, status.st_ino))
        except OSError as error:
            self._notifications = None
            if isinstance(error, FileNotFoundError) or not self._config.poller_enabled:
                return self._wait_for_folder(error)
        return self._poll()

    def _wait_for_folder(self, error: OSError) -> _Reason | None:
        """Log once that the directory cannot be watched, and wait until it is time for the next attempt."""
        if not self._is_missing and processes.is_leader():
            fields = {"error": error.strerror or str(error), "path": str(self._folder)}
            logger.error("reloader: error watching config directory", extra=fields)
        self._is_missing = True
        return self._sleep(self._grace)

    def _wait_for_notification(self, identity: tuple[int, int]) -> _Reason | None:
        """Wait while the directory has this device and inode. Raises OSError when it cannot be watched."""
        if self._notifications is None or identity != self._identity:
            self._notifications, self._identity = self._watch(), identity
            has_changed = True  # perhaps before the watch began; the content shows it
        else:
            has_changed = False
        try:
            for changes in self._notifications:
                if changes:
                    has_changed = True
                elif has_changed:
                    return _Reason.CHANGE
                else:
                    return None
        except RuntimeError as error:  # such as too many inotify instances
            raise OSError(str(error)) from error
        self._notifications = None
        return self._sleep(0)

    def _watch(self) -> Iterator[set[Any]]:
        """Yield the changes, and an empty set each time there were none for the grace period."""
        step = round(min(self._grace, _MAX_STEP_SECONDS) * 1000)
        return watchfiles.watch(
            self._folder,
            watch_filter=None,
            recursive=False,
            force_polling=False,
            step=step,
            rust_timeout=round(self._grace * 1000),
            yield_on_timeout=True,
            stop_event=self,
        )

    def _poll(self) -> _Reason | None:
        reason = self._sleep(self._config.poller_interval.total_seconds())
        content = read_content(self._folder)
        if reason is not None or content == self._reloader.last_content:
            return reason
        while True:
            reason = self._sleep(self._grace)
            previous, content = content, read_content(self._folder)
            if reason is not None or content == previous:
                return reason or _Reason.CHANGE

    def _sleep(self, seconds: float) -> _Reason | None:
        """Wait for a request at most so long."""
        try:
            return self._requests.get(timeout=seconds)
        except Empty:
            return None
