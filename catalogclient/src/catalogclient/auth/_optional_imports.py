"""Libraries of the extras, imported when a manager that needs one is made."""

from __future__ import annotations

import importlib
from typing import Any

from catalogclient.errors import InvalidArgumentError


def module(name: str, *, extra: str) -> Any:
    """The module. Raises InvalidArgumentError that names the extra when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidArgumentError(f"this kind of authentication needs catalogclient[{extra}]") from None
