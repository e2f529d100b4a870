"""Idempotency keys (UUID version 7, RFC 9562)."""

from __future__ import annotations

import re
import secrets
import time

from catalogclient.errors import InvalidArgumentError

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def generate_idempotency_key(*, now_ms: int | None = None, rand: bytes | None = None) -> str:
    """Return a new key: a UUID version 7 in lower case, 36 characters.

    `now_ms` (milliseconds since 1970) and `rand` (10 bytes) replace the clock and the random number generator.
    """
    moment = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    noise = int.from_bytes(secrets.token_bytes(10) if rand is None else rand, "big")
    number = (moment & (1 << 48) - 1) << 80 | noise & (1 << 80) - 1
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0b11 << 62) | 0b10 << 62
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def validate(key: object) -> str:
    """Return `key`. Raises InvalidArgumentError unless it is a UUID of 36 characters."""
    if not isinstance(key, str) or not _UUID.fullmatch(key):
        raise InvalidArgumentError("an idempotency key must be a UUID of 36 characters")
    return key
