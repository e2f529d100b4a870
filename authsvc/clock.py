"""The clock, read by views, tasks and commands; services are given the time."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC with six fractional digits and `Z`; `moment` is in UTC."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def json_value(moment: datetime) -> datetime | str:
    """What an `Answer` writes as `rfc3339` does, and cheaper; `moment` is in UTC."""
    # orjson leaves out a fraction of zero.
    return moment if moment.microsecond else rfc3339(moment)
