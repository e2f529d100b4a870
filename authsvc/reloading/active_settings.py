"""The settings of the present moment: those that a request or a job began with, for everything else the newest ones."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from django.conf import LazySettings, settings

from authsvc import conf
from authsvc.conf.schema import AuthConfig

_begun_with: ContextVar[AuthConfig | None] = ContextVar("authsvc_settings", default=None)
_derived: tuple[AuthConfig, Mapping[str, Any]] | None = None
"""What follows for Django from the settings that were last asked about."""


def allow_change() -> None:
    """From now on `settings.AUTH`, and what Django has from it, are what the present request or job began with.

    Django remembers the first value that an attribute had in each settings object; a property of the class comes first.
    """
    lazy: Any = LazySettings
    lazy.AUTH = property(lambda _: _present())
    for name in conf.for_django(newest()):
        setattr(lazy, name, property(functools.partial(_for_django, name)))


def newest() -> AuthConfig:
    """What requests to come will see."""
    lazy: Any = settings
    found: AuthConfig = lazy._wrapped.AUTH
    return found


def change(new: AuthConfig) -> None:
    """Let everything that begins from now on see `new`."""
    settings.AUTH = new


@contextlib.contextmanager
def steady(chosen: AuthConfig | None = None) -> Iterator[None]:
    """What runs in the block, in this thread, sees the same settings from beginning to end: the newest, or `chosen`."""
    token = _begun_with.set(chosen or newest())
    try:
        yield
    finally:
        _begun_with.reset(token)


def _present() -> AuthConfig:
    return _begun_with.get() or newest()


def _for_django(name: str, _lazy: LazySettings) -> Any:
    global _derived
    present, known = _present(), _derived
    if known is None or known[0] is not present:
        known = _derived = (present, conf.for_django(present))
    return known[1][name]
