"""Bar charts of daily counts as SVG, readable without colour: each series has its own pattern and a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from django.utils.formats import date_format

WIDTH = 340
HEIGHT = 130
_TOP = 16
_BASE = 112
"""Vertical position of the axis."""
_GAP = 2
_MIN_BAR = 1.5
"""Height of the smallest bar, so that it can be seen beside large ones."""
PATTERNS = ("solid", "stripes", "dots", "rows", "outline", "grid")
"""Patterns of the series of a chart, in their order; `templates/operator/chart.html` defines them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The part of a day's bar that belongs to one series. Positions are those of the SVG."""

    x: str
    y: str
    width: str
    height: str
    pattern: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    label: str
    pattern: str
    total: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One day of the table."""

    day: date
    counts: tuple[str, ...]
    """One for each series, if there are several."""
    total: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    id: str
    title: str
    description: str
    """The chart in one sentence, for screen readers."""
    total: str
    today: str
    top: str
    """The count at the upper end of the axis."""
    series: tuple[ChartSeries, ...]
    bars: tuple[Bar, ...]
    rows: tuple[ChartRow, ...]
    """The newest day first."""
    first_day: date
    note: str = ""

    width = WIDTH
    height = HEIGHT
    upper = _TOP
    base = _BASE


def build_chart(
    id: str,
    title: str,
    days: Sequence[date],
    counts: Mapping[str, Sequence[int]],
    *,
    note: str = "",
) -> Chart:
    """A chart with one bar per day, in which the series of `counts` (label → one count per day) are stacked.

    `counts` has at least one series and at most as many as there are patterns.
    """
    patterns = dict(zip(counts, PATTERNS, strict=False))
    totals = [sum(day) for day in zip(*counts.values(), strict=True)]
    top = _round_up(max(totals))
    return Chart(
        id=id,
        title=title,
        description=_describe(title, days, totals),
        total=f"{sum(totals):,}",
        today=f"{totals[-1]:,}",
        top=f"{top:,}",
        series=tuple(
            ChartSeries(label=label, pattern=patterns[label], total=f"{sum(numbers):,}")
            for label, numbers in counts.items()
        ),
        bars=tuple(_bars(days, counts, patterns, top=top)),
        rows=tuple(reversed(_rows(days, counts))),
        first_day=days[0],
        note=note,
    )


def _rows(days: Sequence[date], counts: Mapping[str, Sequence[int]]) -> list[ChartRow]:
    return [
        ChartRow(
            day=day,
            counts=tuple(f"{count:,}" for count in parts) if len(parts) > 1 else (),
            total=f"{sum(parts):,}",
        )
        for day, parts in zip(days, zip(*counts.values(), strict=True), strict=True)
    ]


def _bars(
    days: Sequence[date], counts: Mapping[str, Sequence[int]], patterns: Mapping[str, str], *, top: int
) -> list[Bar]:
    step = WIDTH / len(days)
    bars = []
    for number, day in enumerate(days):
        parts = [(label, numbers[number]) for label, numbers in counts.items() if numbers[number]]
        text = f"{date_format(day, 'j F')}: " + ", ".join(f"{count:,} {label}" for label, count in parts)
        y = float(_BASE)
        for label, count in parts:
            height = max(_MIN_BAR, count / top * (_BASE - _TOP))
            y -= height
            bars.append(
                Bar(
                    x=f"{number * step + _GAP / 2:.2f}",
                    y=f"{max(y, 0):.2f}",
                    width=f"{step - _GAP:.2f}",
                    height=f"{height:.2f}",
                    pattern=patterns[label],
                    text=text,
                )
            )
    return bars


def _describe(title: str, days: Sequence[date], totals: Sequence[int]) -> str:
    if not any(totals):
        return f"{title}: none in {len(days)} days."
    highest = max(totals)
    day = days[len(totals) - 1 - totals[::-1].index(highest)]
    return (
        f"{title}: {sum(totals):,} in {len(days)} days, today {totals[-1]:,}; the most, {highest:,}, on"
        f" {date_format(day, 'j F')}."
    )


def _round_up(count: int) -> int:
    """The next number of the form 1, 2, 3, 4, 5, 6 or 8 times a power of ten; at least 1."""
    power = 1
    while power * 10 < count:
        power *= 10
    return next(factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= count)
