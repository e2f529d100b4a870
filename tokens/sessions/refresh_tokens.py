"""The text of a refresh token: session, counter and seal in the form we issue, the shapes of imported ones.

The counter form is base64url without padding of

    version 0x00 | session id (16) | counter, unsigned LEB128 (1-9) | HMAC-SHA-256 of all before, first 16 bytes
    | SHA-256 of all before, first 4 bytes

so the same session, counter and key always give the same text, and nothing is stored per token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from uuid import UUID

from authsvc.security import crypto
from tokens import errors

_VERSION = b"\x00"
_COUNTER_START = 17
_SIGNATURE_BYTES = 16
_CHECKSUM_BYTES = 4
_SHORTEST = _COUNTER_START + 1 + _SIGNATURE_BYTES + _CHECKSUM_BYTES
_COUNTER_BITS = 64
_HIGHEST_COUNTER = 2**63 - 1
"""What the counter's column can hold."""

# Twelve characters are what the reference server makes, twenty-two what its older versions made.
_LEGACY = re.compile(r"[a-z0-9]{12}|[A-Za-z0-9_-]{22}")


class Malformed(ValueError):
    """A text that is no refresh token in the counter form; the message says which part is wrong."""


@dataclass(frozen=True, slots=True)
class Presented:
    """A refresh token as received. Nothing in it is trusted before `signed_with` the session's key."""

    session_id: UUID
    counter: int
    _signed: bytes = field(repr=False)
    _signature: bytes = field(repr=False)

    def signed_with(self, key: bytes) -> bool:
        return crypto.constant_time_equal(self._signature, _sign(key, self._signed))


def seal(*, session_id: UUID, counter: int, key: bytes) -> str:
    """The refresh token of a session at this counter (0 to 2^63-1): 51 to 62 characters."""
    signed = _VERSION + session_id.bytes + _leb128(counter)
    sealed = signed + _sign(key, signed)
    return crypto.base64url_encode(sealed + _checksum(sealed))


def open(text: str) -> Presented:
    """The parts of a refresh token in the counter form. Raises Malformed."""
    try:
        content = crypto.base64url_decode(text)
    except ValueError:
        raise Malformed("base64") from None
    if len(content) < _SHORTEST:
        raise Malformed("length")
    if content[:1] != _VERSION:
        raise Malformed("version")
    sealed, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    if not crypto.constant_time_equal(checksum, _checksum(sealed)):
        raise Malformed("checksum")
    counter, end = _read_leb128(sealed, start=_COUNTER_START)
    if len(sealed) - end != _SIGNATURE_BYTES:
        raise Malformed("length")
    return Presented(UUID(bytes=content[1:_COUNTER_START]), min(counter, _HIGHEST_COUNTER), sealed[:end], sealed[end:])


def is_legacy(text: str) -> bool:
    """Whether the text has the shape of a refresh token kept in a row of its own."""
    return _LEGACY.fullmatch(text) is not None


def check_shape(text: str) -> None:
    """Refuse a text that is neither form before anything is read. Raises RefreshTokenNotValid."""
    if is_legacy(text):
        return
    try:
        open(text)
    except Malformed:
        raise errors.RefreshTokenNotValid from None


def _sign(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")[:_SIGNATURE_BYTES]


def _checksum(sealed: bytes) -> bytes:
    return hashlib.sha256(sealed).digest()[:_CHECKSUM_BYTES]


def _leb128(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _read_leb128(content: bytes, *, start: int) -> tuple[int, int]:
    """The number at `start` and where it ends; Malformed beyond 64 bits or when it does not end."""
    number = 0
    for index, shift in zip(range(start, len(content)), range(0, _COUNTER_BITS, 7), strict=False):
        number |= (content[index] & 0x7F) << shift
        if number >> _COUNTER_BITS:
            break
        if content[index] <= 0x7F:
            return number, index + 1
    raise Malformed("counter")
