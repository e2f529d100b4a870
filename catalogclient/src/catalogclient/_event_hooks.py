"""Reports the attempts of a call to the log and to the hooks of the caller.

Header fields, bodies and query values are never reported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from catalogclient import _redact
from catalogclient._endpoints import Operation
from catalogclient._log import HTTP
from catalogclient._messages import PreparedRequest
from catalogclient.errors import CatalogError


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """An attempt that is about to start."""

    operation: str
    method: str
    path_template: str
    """Path with placeholders instead of names: `/v1/{prefix}/namespaces/{namespace}`."""
    attempt: int
    """Number of the attempt, starting at 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInfo(RequestInfo):
    """An attempt that has ended."""

    status: int
    """HTTP status; 0 if there was no response."""
    elapsed: float
    """Seconds."""
    error: str | None
    """Name of the error class if there was no response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryInfo(RequestInfo):
    """A delay before the next attempt. `attempt` is the attempt that failed."""

    status: int
    delay: float
    """Seconds."""


class RequestHook(Protocol):
    """Observer of requests, called in the thread of the call. Exceptions of a hook are logged and suppressed."""

    def on_request(self, info: RequestInfo) -> None:
        """Observe the start of an attempt."""

    def on_response(self, info: ResponseInfo) -> None:
        """Observe the end of an attempt, with or without a response."""

    def on_retry(self, info: RetryInfo) -> None:
        """Observe the start of a delay before the next attempt."""


class AttemptReporter:
    """Reports one attempt. Creating it reports the start."""

    __slots__ = ("_attempt", "_hooks", "_operation", "_request", "_started_at")

    def __init__(
        self, hooks: Sequence[RequestHook], operation: Operation, request: PreparedRequest, attempt: int
    ) -> None:
        self._hooks = hooks
        self._operation = operation
        self._request = request
        self._attempt = attempt
        self._started_at = time.monotonic()
        if hooks:
            info = RequestInfo(**self._fields())
            self._call_hooks(lambda hook: hook.on_request(info))

    def report_end(self, status: int, *, error: CatalogError | None = None, request_id: str | None = None) -> None:
        elapsed = time.monotonic() - self._started_at
        if HTTP.isEnabledFor(logging.DEBUG):
            HTTP.debug(
                "%s: %s %s, attempt %d: status %d after %.0f ms, request id %s",
                self._operation.name,
                self._request.method,
                _redact.one_line(_redact.url_without_secrets(self._request.url)),
                self._attempt,
                status,
                elapsed * 1000,
                _redact.one_line(request_id or "-"),
            )
        if self._hooks:
            name = type(error).__name__ if error is not None else None
            info = ResponseInfo(**self._fields(), status=status, elapsed=elapsed, error=name)
            self._call_hooks(lambda hook: hook.on_response(info))

    def report_retry(self, delay: float, error: CatalogError) -> None:
        HTTP.warning(
            "%s: attempt %d failed with %s (status %d), retrying in %.1f s",
            self._operation.name,
            self._attempt,
            type(error).__name__,
            error.status,
            delay,
        )
        if self._hooks:
            info = RetryInfo(**self._fields(), status=error.status, delay=delay)
            self._call_hooks(lambda hook: hook.on_retry(info))

    def _fields(self) -> dict[str, Any]:
        return {
            "operation": self._operation.name,
            "method": self._request.method,
            "path_template": self._operation.template,
            "attempt": self._attempt,
        }

    def _call_hooks(self, call: Callable[[RequestHook], None]) -> None:
        for hook in self._hooks:
            try:
                call(hook)
            except Exception as error:  # noqa: BLE001  (a failing observer must not fail the call)
                HTTP.warning("a request hook raised %s", type(error).__name__)
