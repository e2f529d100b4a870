"""Text form of refresh tokens: session, counter and signature, and the patterns of imported tokens.

The counter form is base64url without padding of

    version 0x00 | session id (16) | counter, unsigned LEB128 (1-9) | HMAC-SHA-256 of all before, first 16 bytes
    | SHA-256 of all before, first 4 bytes

so the same session, counter and key always give the same text, and no token is stored.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from uuid import UUID

from authsvc.security import crypto
from tokens.sessions import errors

STEP_UP_DISTANCE = 2
"""Distance of the counters before and after a step-up: one more than that at which a refresh token may be repeated, so
that every earlier token is invalid."""
_VERSION = b"\x00"
_COUNTER_START = 17
_SIGNATURE_BYTES = 16
_CHECKSUM_BYTES = 4
_MIN_BYTES = _COUNTER_START + 1 + _SIGNATURE_BYTES + _CHECKSUM_BYTES
_COUNTER_BITS = 64
_MAX_COUNTER = 2**63 - 1
"""The largest value of the counter column."""

# The reference server issues twelve characters, its older versions twenty-two.
_LEGACY = re.compile(r"[a-z0-9]{12}|[A-Za-z0-9_-]{22}")


class Malformed(ValueError):
    """A text that is not a refresh token in the counter form; the message names the malformed part."""


@dataclass(frozen=True, slots=True)
class DecodedToken:
    """A received refresh token. It is untrusted until `is_signed_with` has verified it with the session's key."""

    session_id: UUID
    counter: int
    _signed: bytes = field(repr=False)
    _signature: bytes = field(repr=False)

    def is_signed_with(self, key: bytes) -> bool:
        return crypto.constant_time_equal(self._signature, _sign(key, self._signed))


def encode(*, session_id: UUID, counter: int, key: bytes) -> str:
    """The refresh token of a session for this counter (0 to 2^63-1): 51 to 62 characters."""
    signed = _VERSION + session_id.bytes + _leb128(counter)
    content = signed + _sign(key, signed)
    return crypto.base64url_encode(content + _checksum(content))


def decode(text: str) -> DecodedToken:
    """Parse a refresh token in the counter form. Raises Malformed."""
    try:
        content = crypto.base64url_decode(text)
    except ValueError:
        raise Malformed("base64") from None
    if len(content) < _MIN_BYTES:
        raise Malformed("length")
    if content[:1] != _VERSION:
        raise Malformed("version")
    body, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    if not crypto.constant_time_equal(checksum, _checksum(body)):
        raise Malformed("checksum")
    counter, end = _read_leb128(body, start=_COUNTER_START)
    if len(body) - end != _SIGNATURE_BYTES:
        raise Malformed("length")
    return DecodedToken(UUID(bytes=content[1:_COUNTER_START]), min(counter, _MAX_COUNTER), body[:end], body[end:])


def is_legacy(text: str) -> bool:
    """True if the text has the format of an imported refresh token, which is stored in a row."""
    return _LEGACY.fullmatch(text) is not None


def check_format(text: str) -> None:
    """Raises RefreshTokenNotValid for a text of neither form, before any statement."""
    if is_legacy(text):
        return
    try:
        decode(text)
    except Malformed:
        raise errors.RefreshTokenNotValid from None


def _sign(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")[:_SIGNATURE_BYTES]


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:_CHECKSUM_BYTES]


def _leb128(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _read_leb128(content: bytes, *, start: int) -> tuple[int, int]:
    """The number at `start` and its end position. Raises Malformed beyond 64 bits or without an end."""
    number = 0
    for index, shift in zip(range(start, len(content)), range(0, _COUNTER_BITS, 7), strict=False):
        number |= (content[index] & 0x7F) << shift
        if number >> _COUNTER_BITS:
            break
        if content[index] <= 0x7F:
            return number, index + 1
    raise Malformed("counter")
