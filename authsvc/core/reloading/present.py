"""The settings of the present moment: those that a request or a job began with, for everything else the newest ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from django.conf import LazySettings, settings

from authsvc.core import config
from authsvc.core.config.schema import AuthConfig

_begun_with: ContextVar[AuthConfig | None] = ContextVar("authsvc_settings", default=None)


def allow_change() -> None:
    """From now on `settings.AUTH` is what the present request or job began with.

    Django remembers the first value that an attribute had in each settings object; a property of the class comes first.
    """
    LazySettings.AUTH = property(_present)  # type: ignore[attr-defined]


def newest() -> AuthConfig:
    """What requests to come will see."""
    lazy: Any = settings
    found: AuthConfig = lazy._wrapped.AUTH
    return found


def change(new: AuthConfig) -> None:
    """Let everything that begins from now on see `new`."""
    for name, value in config.for_django(new).items():
        setattr(settings, name, value)
        # Django forgets the old value before it sets the new one; who asked in between has had it remembered again.
        settings.__dict__.pop(name, None)
    settings.AUTH = new


@contextlib.contextmanager
def steady(chosen: AuthConfig | None = None) -> Iterator[None]:
    """What runs in the block, in this thread, sees the same settings from beginning to end: the newest, or `chosen`."""
    token = _begun_with.set(chosen or newest())
    try:
        yield
    finally:
        _begun_with.reset(token)


def _present(_lazy: LazySettings) -> AuthConfig:
    return _begun_with.get() or newest()
