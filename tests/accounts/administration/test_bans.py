"""Parsing of ban durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from accounts.administration import bans
from accounts.administration import errors as administration_errors

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("24h", timedelta(hours=24)),
        ("2h45m", timedelta(hours=2, minutes=45)),
        ("1.5h", timedelta(minutes=90)),
        ("+.5s", timedelta(milliseconds=500)),
        ("300ms", timedelta(milliseconds=300)),
        ("3us", timedelta(microseconds=3)),
        ("3µs", timedelta(microseconds=3)),
        ("3μs", timedelta(microseconds=3)),
        ("876000h", timedelta(hours=876000)),
        ("-1h", timedelta(hours=-1)),
    ],
)
def test_ban_ends_after_duration(text: str, length: timedelta) -> None:
    assert bans.end_of_ban(text, at=AT) == AT + length


@pytest.mark.parametrize("text", ["none", "0", "0s", "-0h", "0h0m"])
def test_zero_duration_is_no_ban(text: str) -> None:
    assert bans.end_of_ban(text, at=AT) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("24", 'time: missing unit in duration "24"'),
        ("1h30", 'time: missing unit in duration "1h30"'),
        ("never", 'time: invalid duration "never"'),
        ("None", 'time: invalid duration "None"'),
        (".h", 'time: invalid duration ".h"'),
        ("-", 'time: invalid duration "-"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1H", 'time: unknown unit "H" in duration "1H"'),
        ("1h 2m", 'time: unknown unit "h " in duration "1h 2m"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("-2562048h", 'time: invalid duration "-2562048h"'),
        ('"h', 'time: invalid duration "\\"h"'),
    ],
)
def test_malformed_duration_is_rejected_with_reason(text: str, reason: str) -> None:
    with pytest.raises(administration_errors.BanDurationInvalid) as refusal:
        bans.end_of_ban(text, at=AT)
    assert refusal.value.message == f"invalid format for ban duration: {reason}"


def test_longest_ban_is_accepted() -> None:
    until = bans.end_of_ban("2562047h47m16s", at=AT)
    assert until is not None
    assert until.year == 2318
