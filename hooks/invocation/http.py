"""Calls a hook over HTTP: attempts, time limit, accepted responses."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from datetime import timedelta

from authsvc.conf.types import Secret
from authsvc.outgoing import http
from hooks import errors
from hooks.invocation import signatures

_ATTEMPTS = 3
_PAUSE_SECONDS = 2.0
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CONTENT_TYPE = re.compile(rf"\s*({_TOKEN}(?:/{_TOKEN})?)\s*(?:;\s*{_TOKEN}\s*=\s*(?:{_TOKEN}|\"[^\"]*\")\s*)*;?\s*")

logger = logging.getLogger(__name__)


def call(
    uri: str, *, body: bytes, message_id: str, secrets: Sequence[Secret], deadline: float, timeout: timedelta
) -> bytes | None:
    """The JSON text of the hook; None for status 204. Raises HookFailed.

    `deadline` (monotonic clock) covers all attempts and the pauses between them; `timeout` is named in its error.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        level = logging.DEBUG if attempt == 1 else logging.INFO
        # A call of logging would quote the URL's query otherwise.
        logger.log(level, "invocation attempt: %s", attempt, extra={"component": "auth_hook", "url": uri})
        left = deadline - time.monotonic()
        if left <= 0:
            raise errors.HookTimedOut.after(timeout)
        try:
            response = http.send(
                "POST",
                uri,
                timeout=timedelta(seconds=left),
                max_bytes=errors.MAX_RESPONSE_BYTES + 1,
                truncate=True,
                headers={
                    "Content-Type": "application/json",
                    "Accept-Encoding": "identity",
                    **signatures.signed_headers(secrets, message_id=message_id, timestamp=int(time.time()), body=body),
                },
                content=body,
            )
        except http.TimedOut:
            raise errors.HookTimedOut.after(timeout) from None
        except http.ResponseTooLarge:
            raise errors.HookResponseTooLarge from None
        except http.Unreachable as error:
            # The error of the request does not name the cause.
            _log_failure(uri, attempt=attempt, reason=str(error))
            if not isinstance(error, http.NotConnected):
                raise errors.HookErrored(uri) from None
            if attempt < _ATTEMPTS:
                time.sleep(max(0.0, min(_PAUSE_SECONDS, deadline - time.monotonic())))
            continue
        if response.status not in (429, 503):
            return _content(response)
        if not response.headers.get("Retry-After") or attempt == _ATTEMPTS:
            raise errors.HookUnavailable
    raise errors.HookUnreachable


def _log_failure(uri: str, *, attempt: int, reason: str) -> None:
    fields = {"component": "auth_hook", "url": uri, "attempt": attempt, "error": reason}
    logger.warning("invocation attempt failed", extra=fields)


def _content(response: http.Response) -> bytes | None:
    match response.status:
        case 204:
            return None
        case 200 | 202:
            _check_content_type(response.headers.get("Content-Type", ""))
            if len(response.body) > errors.MAX_RESPONSE_BYTES:
                raise errors.HookResponseTooLarge
            return response.body
        case 400:
            raise errors.PayloadRefused
        case 401:
            raise errors.HookUnauthorized
    raise errors.UnexpectedHookStatus(response.status)


def _check_content_type(value: str) -> None:
    if not value:
        raise errors.InvalidHookContentType("Invalid Content-Type: Missing Content-Type header")
    match = _CONTENT_TYPE.fullmatch(value)
    if match is None:
        raise errors.InvalidHookContentType("Invalid Content-Type header: malformed media type")
    if match[1].lower() != "application/json":
        raise errors.InvalidHookContentType(f"Invalid JSON response. Received content-type: {value}")
