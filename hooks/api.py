"""Public names for Python hooks. Changes follow semantic versioning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One call of a hook."""

    name: str
    """The name of the hook, such as `customize-access-token`."""
    payload: Mapping[str, Any]
    """A copy of the payload, which the function may change without an effect."""
    deadline: float
    """The time on the monotonic clock at which the service stops waiting for the function."""


class HookRejection(Exception):
    """Raised by a hook to refuse the request with a message for the client and an HTTP status, 400 to 599."""

    def __init__(self, message: str, *, http_code: int = 500) -> None:
        super().__init__(message)
        if not message:
            raise ValueError("a rejection needs a message")
        self.message = message
        self.http_code = http_code if 400 <= http_code <= 599 else 500
