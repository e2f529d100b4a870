"""What is logged of requests, and what the caller's hooks are told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from catalogclient import _redact
from catalogclient._endpoints import Operation
from catalogclient._hooks import RequestHook, RequestInfo, ResponseInfo, RetryInfo
from catalogclient._log import HTTP
from catalogclient._messages import PreparedRequest
from catalogclient.errors import CatalogError


class Watch:
    """One attempt as seen from outside. Neither header fields nor bodies nor queries are told to anybody."""

    __slots__ = ("_attempt", "_began_at", "_hooks", "_operation", "_request")

    def __init__(
        self, hooks: Sequence[RequestHook], operation: Operation, request: PreparedRequest, attempt: int
    ) -> None:
        self._hooks = hooks
        self._operation = operation
        self._request = request
        self._attempt = attempt
        self._began_at = time.monotonic()
        if hooks:
            info = RequestInfo(**self._told())
            self._tell(lambda hook: hook.on_request(info))

    def ended(self, status: int, *, error: CatalogError | None = None, request_id: str | None = None) -> None:
        elapsed = time.monotonic() - self._began_at
        if HTTP.isEnabledFor(logging.DEBUG):
            HTTP.debug(
                "%s: %s %s, attempt %d: status %d after %.0f ms, request id %s",
                self._operation.name,
                self._request.method,
                _redact.one_line(_redact.address(self._request.url)),
                self._attempt,
                status,
                elapsed * 1000,
                _redact.one_line(request_id or "-"),
            )
        if self._hooks:
            name = type(error).__name__ if error is not None else None
            info = ResponseInfo(**self._told(), status=status, elapsed=elapsed, error=name)
            self._tell(lambda hook: hook.on_response(info))

    def pausing(self, delay: float, error: CatalogError) -> None:
        HTTP.warning(
            "%s: attempt %d failed with %s (status %d), the next one follows in %.1f s",
            self._operation.name,
            self._attempt,
            type(error).__name__,
            error.status,
            delay,
        )
        if self._hooks:
            info = RetryInfo(**self._told(), status=error.status, delay=delay)
            self._tell(lambda hook: hook.on_retry(info))

    def _told(self) -> dict[str, Any]:
        return {
            "operation": self._operation.name,
            "method": self._request.method,
            "path_template": self._operation.template,
            "attempt": self._attempt,
        }

    def _tell(self, told: Callable[[RequestHook], None]) -> None:
        for hook in self._hooks:
            try:
                told(hook)
            except Exception as error:  # noqa: BLE001  (a spectator must not stop the play)
                HTTP.warning("a hook failed: %s", type(error).__name__)
