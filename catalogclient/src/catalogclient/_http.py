"""Rules for HTTP exchanges that do not depend on the HTTP library: size limit, redirects and network errors."""

from __future__ import annotations

import io
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

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
_PIECE = 262_144
"""Bytes that one step of decompression returns at most. A chunk of a hostile response may become 1000 times longer."""
_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_GZIP_START = b"\x1f"
_COMPRESSED = ("gzip", "x-gzip", "deflate")


def check_redirect(status: int, location: str | None) -> None:
    """Raise UnexpectedRedirectError for a redirect."""
    if 300 <= status < 400 and status != 304:
        target = _redact.url_without_secrets(location or "")
        raise UnexpectedRedirectError("the server sent a redirect", status=status, location=target)


class Body:
    """Collects the body of a response. Decompresses it in small steps, so that it cannot exceed the size limit.

    The HTTP libraries decompress whole chunks, some of them several times (`Content-Encoding: gzip, gzip`). A body with
    such or an unknown encoding stays as it is: some servers send the character set there.
    """

    def __init__(self, *, status: int, encoding: str | None, limit: int | None) -> None:
        self._status = status
        self._encoding = (encoding or "").strip().lower()
        self._limit = limit
        self._decoder: Any = None
        self._content = io.BytesIO()

    def append(self, chunk: bytes) -> bool:
        """Add a chunk. Returns False if the rest of an error response is ignored.

        Raises InvalidResponseError if the body exceeds the limit, and NetworkError if it is damaged.
        """
        try:
            return all(self._write(piece) for piece in self._decode(chunk))
        except (zlib.error, InvalidResponseError) as error:
            if self._status >= 400:
                return False
            if isinstance(error, InvalidResponseError):
                raise
            raise _damaged() from error

    def finish(self) -> io.BytesIO:
        """Return the whole body. Raises NetworkError if its compressed form is incomplete."""
        if self._decoder is not None and not self._decoder.eof and self._status < 400:
            raise _damaged()
        return self._content

    def _decode(self, chunk: bytes) -> Iterator[bytes]:
        if self._encoding not in _COMPRESSED:
            yield chunk
            return
        data = chunk
        while data:
            if self._decoder is None:
                self._decoder = zlib.decompressobj(self._window(data))
            elif self._decoder.eof:
                # Another member of a gzip file (RFC 1952 §2.2). Anything else is padding.
                if not data.startswith(_GZIP_START):
                    return
                self._decoder = zlib.decompressobj(_GZIP)
            piece = self._decoder.decompress(data, _PIECE)
            yield piece
            while len(piece) == _PIECE and not self._decoder.eof:
                piece = self._decoder.decompress(self._decoder.unconsumed_tail, _PIECE)
                yield piece
            data = self._decoder.unused_data

    def _window(self, data: bytes) -> int:
        if self._encoding != "deflate":
            return _GZIP
        # RFC 9110 §8.4.1.2: some servers send the deflate stream without the zlib header.
        return _ZLIB if data[0] & 0x0F == zlib.DEFLATED else _RAW

    def _write(self, piece: bytes) -> bool:
        self._content.write(piece)
        if self._status >= 400 and self._content.tell() > _MAX_ERROR_BYTES:
            self._content.truncate(_MAX_ERROR_BYTES)
            return False
        if self._limit is not None and self._content.tell() > self._limit:
            raise InvalidResponseError(f"the response is longer than {self._limit} bytes", status=self._status)
        return True


def _damaged() -> NetworkError:
    error = NetworkError("Network request failed: the compressed response is damaged or incomplete")
    error.sent = True
    return error


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
