"""Parses and formats durations such as `24h`, `1h30m` and `300ms`."""

from __future__ import annotations

import re
from datetime import timedelta

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)

_MAX_DIGITS = 40

# 2^63 ns, about 292 years: the maximum of a 64-bit count of nanoseconds, and small enough to be added to a date.
LIMIT = timedelta(microseconds=(2**63 - 1) // 1000)


def parse(text: str) -> timedelta:
    """The duration in `text`: an optional sign, then numbers with units (ns us µs ms s m h), or a bare `0`.

    It is rounded to microseconds. Raises ValueError with a reason that does not quote the text.
    """
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return timedelta()
    if not unsigned:
        raise ValueError("a number with a unit is needed, such as 24h or 1h30m")
    nanoseconds, position = 0, 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError("numbers need units (ns, us, ms, s, m, h), as in 1h30m")
        whole, fraction, unit = part[1] or "0", part[2] or "", _NANOSECONDS[part[3]]
        if len(whole) + len(fraction) > _MAX_DIGITS:
            raise ValueError("the number is too long")
        nanoseconds += int(whole) * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        position = part.end()
    if nanoseconds >= 2**63:
        raise ValueError("longer than 292 years")
    length = timedelta(microseconds=(nanoseconds + 500) // 1000)
    return -length if text.startswith("-") else length


def text(length: timedelta) -> str:
    """The customary form: `1h30m0s`, `1.5s`, `300ms`, `20µs`, `0s`; `parse` is the inverse."""
    microseconds = length // timedelta(microseconds=1)
    sign, microseconds = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000:
        return f"{sign}{microseconds}µs"
    if microseconds < 1_000_000:
        return f"{sign}{_decimal(microseconds, 1_000)}ms"
    minutes, microseconds = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(microseconds, 1_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    fraction = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
