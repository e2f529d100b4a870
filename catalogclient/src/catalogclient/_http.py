"""Rules for HTTP exchanges that do not depend on the HTTP library: size limit, redirects and network errors."""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Callable, Iterator

from catalogclient import _redact
from catalogclient.errors import (
    ConnectError,
    InvalidResponseError,
    NetworkError,
    RequestTimeoutError,
    TlsError,
    UnexpectedRedirectError,
)

_MAX_ERROR_BYTES = 1_048_576


def check_redirect(status: int, location: str | None) -> None:
    """Raise UnexpectedRedirectError for a redirect."""
    if 300 <= status < 400 and status != 304:
        target = _redact.url_without_secrets(location or "")
        raise UnexpectedRedirectError("the server sent a redirect", status=status, location=target)


def append(body: io.BytesIO, chunk: bytes, *, status: int, limit: int | None) -> bool:
    """Add a chunk to the body. Returns False if the rest of an error response is ignored.

    Raises InvalidResponseError if the body exceeds `limit`.
    """
    body.write(chunk)
    if status >= 400 and body.tell() > _MAX_ERROR_BYTES:
        body.truncate(_MAX_ERROR_BYTES)
        return False
    if limit is not None and body.tell() > limit:
        raise InvalidResponseError(f"the response is longer than {limit} bytes", status=status)
    return True


def network_error(
    error: Exception, *, sent: bool, deadline: float | None, is_timeout: Callable[[BaseException], bool]
) -> NetworkError:
    """Convert an exception of the HTTP library."""
    chain = list(causes(error))
    text = f"Network request failed: {_reason(chain, is_timeout)}"
    failure: NetworkError
    if deadline is not None and time.monotonic() >= deadline:
        failure = RequestTimeoutError(text, phase="total", details=error)
    elif any(is_timeout(cause) for cause in chain):
        failure = RequestTimeoutError(text, phase="read" if sent else "connect", details=error)
    elif any(isinstance(cause, ssl.SSLError) for cause in chain) and not sent:
        failure = TlsError(text, details=error)
    elif not sent:
        failure = ConnectError(text, details=error)
    else:
        failure = NetworkError(text, details=error)
    failure.sent = sent
    return failure


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes: `reason`, arguments, `__cause__` and `__context__`."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        candidates = (getattr(error, "reason", None), *error.args, error.__cause__, error.__context__)
        error = next((candidate for candidate in candidates if isinstance(candidate, BaseException)), None)


def _reason(chain: list[BaseException], is_timeout: Callable[[BaseException], bool]) -> str:
    """Describe the root cause without data of the request. Messages of the libraries may contain its URL."""
    for cause in reversed(chain):
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {getattr(cause, 'verify_message', '') or cause.reason or type(cause).__name__}"
        if isinstance(cause, socket.gaierror):
            return f"host name not resolved: {cause.strerror}"
        if is_timeout(cause):
            return "timed out"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return type(chain[-1]).__name__
