"""Current time and time formats. Views, tasks and commands read the clock and pass the time to services."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC with six fractional digits and `Z`; `moment` is in UTC."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def json_value(moment: datetime) -> datetime | str:
    """A value that the JSON renderer writes in the format of `rfc3339`, at lower cost; `moment` is in UTC."""
    # orjson omits a fraction of zero.
    return moment if moment.microsecond else rfc3339(moment)
