"""Time-based one-time codes (RFC 6238) for authenticator apps: SHA-1, six digits, thirty seconds."""

from __future__ import annotations

import base64
import hmac
import itertools
import secrets
import struct
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote

import segno

from authsvc.security import crypto

_SECRET_BYTES = 20
_DIGITS = 6
_PERIOD = 30
_WINDOW = (-1, 0, 1)
"""Accepted time steps relative to the present one, for inaccurate clocks and slow typing."""
_MAX_URI_LENGTH = 1273
"""Capacity in bytes of the largest QR code at the highest level of error correction (ISO/IEC 18004)."""
MAX_ISSUER_LENGTH = 128
"""Maximum number of characters in an issuer."""
_MAX_ROBUST_LENGTH = 300
"""Longest text of a QR code at the highest level of error correction. Beyond it, its size would cost 0.1 s and more."""
_QUIET = 4
_PIXELS = 3


class UriTooLong(ValueError):
    """The names do not fit into a QR code."""


def new_secret() -> str:
    """160 random bits (RFC 4226 §4) in Base32: 32 upper-case letters and digits."""
    return base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def uri(*, issuer: str, account: str, secret: str) -> str:
    """The URI that an app imports, for example from a QR code. Raises UriTooLong."""
    if len(issuer) > MAX_ISSUER_LENGTH:
        raise UriTooLong
    name = quote(issuer, safe="")
    uri = (
        f"otpauth://totp/{name}:{quote(account, safe='@')}?algorithm=SHA1&digits={_DIGITS}&issuer={name}"
        f"&period={_PERIOD}&secret={secret}"
    )
    if len(uri) > _MAX_URI_LENGTH:
        raise UriTooLong
    return uri


def qr_code(text: str) -> str:
    """`text` as a QR code in SVG, black on white, three pixels to a module.

    Clients put it into a data URI unchanged, so it contains neither `#` nor `%` and colours have names.
    """
    is_robust = len(text) <= _MAX_ROBUST_LENGTH
    # Comparing the masks takes most of the time. Any mask is readable.
    code = segno.make_qr(text, error="h" if is_robust else "l", mask=None if is_robust else 0, boost_error=False)
    rows = list(code.matrix_iter(border=_QUIET))
    side = len(rows)
    path = "".join(f"M{x} {y}h{width}v1h-{width}z" for y, row in enumerate(rows) for x, width in _dark(row))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{side * _PIXELS}" height="{side * _PIXELS}"'
        f' viewBox="0 0 {side} {side}" shape-rendering="crispEdges">'
        f'<path fill="white" d="M0 0h{side}v{side}h-{side}z"/><path fill="black" d="{path}"/></svg>'
    )


def matching_step(code: str, *, secret: str, at: datetime) -> int | None:
    """The time step that the code belongs to, the newest if several fit; None when it is not valid at this time.

    Raises ValueError for a secret that is not Base32.
    """
    digits = code.strip()
    now = int(at.timestamp()) // _PERIOD
    # Compares all steps, so that the response time reveals nothing.
    matching = [
        now + offset for offset in _WINDOW if crypto.constant_time_equal(code_at(now + offset, secret=secret), digits)
    ]
    return max(matching, default=None)


def code_at(step: int, *, secret: str) -> str:
    """The code of a time step (RFC 4226 §5.3). Raises ValueError for a secret that is not Base32."""
    bare = secret.strip().rstrip("=")
    key = base64.b32decode(bare + "=" * (-len(bare) % 8), casefold=True)
    digest = hmac.digest(key, struct.pack(">Q", step), "sha1")
    start = digest[-1] & 0x0F
    number = int.from_bytes(digest[start : start + 4]) & 0x7FFF_FFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}d}"


def _dark(row: Iterable[int]) -> list[tuple[int, int]]:
    """Start and width of every run of dark modules."""
    runs, x = [], 0
    for is_dark, modules in itertools.groupby(row):
        width = len(list(modules))
        if is_dark:
            runs.append((x, width))
        x += width
    return runs
