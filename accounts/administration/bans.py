"""Parses the duration of a ban."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta

from accounts.administration import errors
from authsvc.conf import durations

_NO_BAN = "none"
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)", re.ASCII)
_UNITS = frozenset(("ns", "us", "µs", "μs", "ms", "s", "m", "h"))


def end_of_ban(text: str, *, at: datetime) -> datetime | None:
    """The end of a ban that starts `at`; None for `none` and for a zero duration. Raises BanDurationInvalid."""
    if text == _NO_BAN:
        return None
    try:
        length = durations.parse(text)
    except ValueError:
        raise errors.BanDurationInvalid(_reason(text)) from None
    return at + length if length != timedelta() else None


def _reason(text: str) -> str:
    """The reason why a duration is malformed, in the words that clients expect."""
    quoted = json.dumps(text, ensure_ascii=False)
    position = 1 if text[:1] in ("+", "-") else 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or not (part[1] or part[2]):
            break
        if not part[3]:
            return f"time: missing unit in duration {quoted}"
        if part[3] not in _UNITS:
            return f"time: unknown unit {json.dumps(part[3], ensure_ascii=False)} in duration {quoted}"
        position = part.end()
    return f"time: invalid duration {quoted}"
