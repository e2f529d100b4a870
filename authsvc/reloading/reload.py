"""One reload: the directory is read, laid over what the process was started with, checked, and put in its place."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection

from authsvc import conf
from authsvc.api.throttling import Bucket
from authsvc.conf import durations, loading
from authsvc.reloading import active_settings
from authsvc.reloading.connection_limit import Room
from authsvc.security import rate_limits
from authsvc.server import processes, serving

_CHECKED = (checks.Tags.compatibility, checks.Tags.security, checks.Tags.templates)

_MESSAGE_LIMITS = {"email_sent": "RATE_LIMIT_EMAIL_SENT", "sms_sent": "RATE_LIMIT_SMS_SENT"}
_REQUEST_LIMITS = {
    "verify": "RATE_LIMIT_VERIFY",
    "token_refresh": "RATE_LIMIT_TOKEN_REFRESH",
    "otp": "RATE_LIMIT_OTP",
    "anonymous_users": "RATE_LIMIT_ANONYMOUS_USERS",
    "factors": "MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY",
    "passkey": "RATE_LIMIT_PASSKEY",
}

logger = logging.getLogger("authsvc.config")


class Refused(Exception):
    """The directory cannot be read or what is in it cannot be used; the message shows no secret."""


class Swap:
    """Reloads for one process; remembers what has been read, because a variable that vanishes keeps its last value."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        started = conf.newest()
        self.room = Room(processes=serving.processes(started), threads=serving.threads(started))
        self._started_with = conf.without_directory()
        self._overlay: dict[str, str] = {}
        # A directory that cannot be used has been told of, and did not stop the start.
        with contextlib.suppress(Refused):
            self._overlay = _read(folder)

    def make(self) -> bool:
        """True when new settings are in place; False, and a line in the log, when the present ones stay."""
        try:
            overlay = self._overlay | _read(self._folder)
            new = _checked({**self._started_with, **overlay})
        except Refused as error:
            if processes.is_speaker():
                logger.error("reloader: error loading config", extra={"error": str(error)})
            return False
        old = conf.newest()
        new, kept_back = loading.keep_until_restart(new, old)
        active_settings.change(new)
        self.room.fit(new)
        self._overlay = overlay
        if processes.is_speaker():
            logger.info("reloading api with new configuration")
            for name in kept_back:
                logger.warning("a changed setting counts after a restart only", extra={"setting": name})
            conf.notices.log(new.notices)
            _restart_limiters(old.limits, new.limits)
        return True


def _read(folder: Path) -> dict[str, str]:
    try:
        return conf.read_directory(folder)
    except OSError as error:
        raise Refused(error.strerror or "cannot be read") from None
    except ValueError as error:
        raise Refused(str(error)) from None


def _checked(variables: Mapping[str, str]) -> conf.AuthConfig:
    """Settings as `serve` would accept them: the rules, and the system checks with what is derived from them."""
    try:
        new = conf.load_merged(variables)
    except ImproperlyConfigured as error:
        raise Refused("; ".join(str(error).splitlines())) from None
    with conf.keep(new):
        faults = [message for message in checks.run_checks(tags=_CHECKED) if message.is_serious()]
    if faults:
        raise Refused("; ".join(str(fault.msg) for fault in faults))
    return new


def _restart_limiters(old: conf.Limits, new: conf.Limits) -> None:
    """Counters of limits that have changed begin anew; the others go on."""
    changed = list(_changed(old, new))
    for bucket, field, setting in changed:
        env, before, after = f"AUTH_{setting}", _shown(getattr(old, field)), _shown(getattr(new, field))
        logger.info(
            "env %s changed, updating %s limiter from %s to %s",
            env,
            bucket,
            before,
            after,
            extra={
                "rate_limit_field": field,
                "rate_limit_env": env,
                "rate_limit_old": before,
                "rate_limit_new": after,
            },
        )
    if not changed:
        return
    try:
        rate_limits.reset(bucket for bucket, _, _ in changed)
    except DatabaseError as error:
        logger.warning("counters of changed limits go on", extra={"error": str(error)})
    finally:
        connection.close()


def _changed(old: conf.Limits, new: conf.Limits) -> Iterator[tuple[str, str, str]]:
    """Bucket, field and setting of each limiter whose limit is another now."""
    for field, setting in _MESSAGE_LIMITS.items():
        if getattr(old, field) != getattr(new, field):
            yield field, field, setting
    for bucket in Bucket:
        if getattr(old, bucket.field) != getattr(new, bucket.field):
            yield bucket.value, bucket.field, _REQUEST_LIMITS[bucket.field]


def _shown(limit: conf.Rate | float) -> str:
    if not isinstance(limit, conf.Rate):
        return f"{limit:g}"
    return f"{limit.events}/{durations.text(limit.over)}" if limit.over else str(limit.events)
