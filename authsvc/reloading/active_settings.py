"""Django settings that follow from ours, kept in step with the settings of the present request or job."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from django.conf import LazySettings, settings

from authsvc import conf
from authsvc.conf import AuthConfig

_derived: tuple[AuthConfig, Mapping[str, Any]] | None = None
"""The Django settings that follow from the settings object that was asked for last."""


def allow_change() -> None:
    """From now on the derived Django settings are those of the present request or job.

    Django caches the first value that an attribute had in each settings object; a property of the class comes first.
    """
    lazy: Any = LazySettings
    for name in conf.for_django(conf.newest()):
        setattr(lazy, name, property(functools.partial(_for_django, name)))


def change(new: AuthConfig) -> None:
    """Let everything that begins from now on see `new`."""
    settings.AUTH = new


def _for_django(name: str, _lazy: LazySettings) -> Any:
    global _derived
    current, known = conf.current(), _derived
    if known is None or known[0] is not current:
        known = _derived = (current, conf.for_django(current))
    return known[1][name]
