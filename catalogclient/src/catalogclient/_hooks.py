"""What may watch the requests of a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """An attempt about to be made."""

    operation: str
    method: str
    path_template: str
    """`/v1/{prefix}/namespaces/{namespace}`: names are left out."""
    attempt: int
    """The first is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInfo(RequestInfo):
    """An attempt that has ended."""

    status: int
    """Of HTTP; 0 when no answer came."""
    elapsed: float
    """Seconds."""
    error: str | None
    """Name of the error class when no answer came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryInfo(RequestInfo):
    """A pause before another attempt; `attempt` has just failed."""

    status: int
    delay: float
    """Seconds."""


class RequestHook(Protocol):
    """Called in the thread of the call; what it raises is logged and goes no further."""

    def on_request(self, info: RequestInfo) -> None: ...

    def on_response(self, info: ResponseInfo) -> None: ...

    def on_retry(self, info: RetryInfo) -> None: ...
