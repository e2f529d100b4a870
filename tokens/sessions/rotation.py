"""What a presented refresh token is worth, given how far behind the newest one it is; pure."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto

from authsvc import conf


class Verdict(Enum):
    ROTATE = auto()
    """It is the newest: hand out the next one."""
    REPEAT = auto()
    """Hand out the newest again."""
    REUSED = auto()
    """Somebody else has it too: the sign-in ends."""
    REFUSED = auto()
    AHEAD = auto()
    """Sealed with the right key for a counter never reached."""


def judge(*, behind: int, age: timedelta, refresh: conf.Refresh) -> Verdict:
    """`behind`: newest counter minus presented one; `age`: time since the last rotation.

    With rotation on, only the immediate predecessor, and only inside the reuse interval, gets the newest token again
    (RFC 9700 §4.14.2); everything older is an attack.
    """
    if behind < 0:
        return Verdict.AHEAD
    if behind == 0:
        return Verdict.ROTATE
    if refresh.allow_reuse:
        return Verdict.REPEAT
    if refresh.rotation_enabled:
        return Verdict.REPEAT if behind == 1 and age <= refresh.reuse_interval else Verdict.REUSED
    return Verdict.REPEAT if behind == 1 or age < refresh.reuse_interval else Verdict.REFUSED
