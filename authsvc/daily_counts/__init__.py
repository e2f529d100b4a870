"""Counts of events by day, for the charts of the console.

An app registers a `Source` for a table in its `tasks.py`. A periodic job counts each row once; a reader adds the rows
of the last minutes, so that no view scans a table.
"""

from __future__ import annotations

from authsvc.daily_counts.counting import (
    DailyCounts,
    Series,
    Source,
    count_rows,
    read_counts,
    register,
    reset,
)

__all__ = ["DailyCounts", "Series", "Source", "count_rows", "read_counts", "register", "reset"]
