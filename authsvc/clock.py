"""The clock, read by views, tasks and commands; services are given the time."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def text(moment: datetime) -> str:
    """RFC 3339 in UTC with six fractional digits and `Z`; `moment` is in UTC."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def json(moment: datetime) -> datetime | str:
    """What an `Answer` writes as `text` does, and cheaper; `moment` is in UTC."""
    # orjson leaves out a fraction of zero.
    return moment if moment.microsecond else text(moment)
