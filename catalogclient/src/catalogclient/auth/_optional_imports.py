"""Imports the libraries of the extras on demand."""

from __future__ import annotations

import importlib
from typing import Any

from catalogclient.errors import InvalidArgumentError


def import_module(name: str, *, extra: str) -> Any:
    """Imports a module. Raises InvalidArgumentError that names the extra if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidArgumentError(f"this type of auth requires catalogclient[{extra}]") from None
