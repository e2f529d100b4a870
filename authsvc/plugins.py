"""The plug-in entries of `settings.py`: dotted names, resolved once."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string


@cache
def one(setting: str) -> Any:
    """The object made from the class that a setting names."""
    return import_string(getattr(settings, setting))()


@cache
def in_order(setting: str) -> list[Any]:
    """The objects of a setting that lists classes."""
    return [import_string(path)() for path in getattr(settings, setting)]


@cache
def by_name(setting: str) -> dict[str, Any]:
    """The objects of a setting that maps names to classes."""
    return {name: import_string(path)() for name, path in getattr(settings, setting).items()}
