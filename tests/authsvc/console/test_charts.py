"""Charts: heights, patterns and texts of bars."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from authsvc.console.charts import PATTERNS, build_chart

DAYS = [date(2026, 3, 1) + timedelta(days=number) for number in range(4)]


def test_bars_are_stacked_to_the_scale_of_the_axis() -> None:
    chart = build_chart("c", "Messages", DAYS, {"sent": [100, 0, 30, 40], "failed": [0, 0, 10, 1_000_000]})
    assert [(bar.x, bar.pattern, bar.text) for bar in chart.bars] == [
        ("1.00", "solid", "1 March: 100 sent"),
        ("171.00", "solid", "3 March: 30 sent, 10 failed"),
        ("171.00", "stripes", "3 March: 30 sent, 10 failed"),
        ("256.00", "solid", "4 March: 40 sent, 1,000,000 failed"),
        ("256.00", "stripes", "4 March: 40 sent, 1,000,000 failed"),
    ]
    assert {bar.height for bar in chart.bars[:4]} == {"1.50"}  # visible beside the large one
    assert [bar.y for bar in chart.bars[1:3]] == ["110.50", "109.00"]
    assert chart.bars[-1].height == "48.00"
    assert chart.top == "2,000,000"
    assert chart.description == "Messages: 1,000,180 in 4 days, today 1,000,040; the most, 1,000,040, on 4 March."
    assert [(row.day.day, row.counts, row.total) for row in chart.rows[:2]] == [
        (4, ("40", "1,000,000"), "1,000,040"),
        (3, ("30", "10"), "40"),
    ]


def test_a_bar_of_one_series_fills_the_chart_and_the_table_has_one_column() -> None:
    chart = build_chart("c", "Sign-ins", DAYS, {"sign-ins": [0, 0, 0, 1]})
    assert [(bar.y, bar.height) for bar in chart.bars] == [("16.00", "96.00")]
    assert (chart.top, chart.total, chart.today) == ("1", "1", "1")
    assert chart.rows[0].counts == ()


def test_an_empty_chart_has_no_bars() -> None:
    chart = build_chart("c", "Sign-ins", DAYS, {"sign-ins": [0] * 4})
    assert chart.bars == ()
    assert chart.description == "Sign-ins: none in 4 days."


@pytest.mark.parametrize(("count", "top"), [(1, "1"), (7, "8"), (9, "10"), (10, "10"), (11, "20"), (61_000, "80,000")])
def test_the_axis_ends_at_a_round_number(count: int, top: str) -> None:
    assert build_chart("c", "Sign-ins", DAYS, {"sign-ins": [0, 0, 0, count]}).top == top


def test_each_series_has_a_pattern_of_its_own() -> None:
    chart = build_chart("c", "Refused", DAYS, {name: [1] * 4 for name in "abcdef"})
    assert [series.pattern for series in chart.series] == list(PATTERNS)
