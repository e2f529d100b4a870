"""Progress output of long commands."""

from __future__ import annotations

import io
import itertools
import time

import pytest

from authsvc.management.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _slow_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock by a minute at each reading."""
    minutes = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 60.0 * next(minutes))


@pytest.mark.usefixtures("_slow_items")
def test_a_terminal_shows_a_progress_bar() -> None:
    screen = Terminal()
    progress = Progress(screen, noun="users", total=4000)
    progress.advance(1000)
    progress.advance(3000)
    progress.finish()
    frames = screen.getvalue().replace("\x1b[K", "").split("\r")[1:]
    assert frames[0] == f"[{'#' * 7}{'.' * 23}] 1,000 of 4,000 users"
    assert frames[-1] == f"[{'#' * 30}] 4,000 of 4,000 users\n"


@pytest.mark.usefixtures("_slow_items")
def test_a_terminal_shows_a_count_without_a_total() -> None:
    screen = Terminal()
    progress = Progress(screen, noun="rows")
    progress.advance()
    assert screen.getvalue() == "\r1 rows\x1b[K"


@pytest.mark.usefixtures("_slow_items")
def test_a_log_contains_lines() -> None:
    log = io.StringIO()
    progress = Progress(log, noun="users", total=2000)
    progress.advance(1500)
    progress.advance(500)
    progress.finish()
    assert log.getvalue().splitlines()[:2] == ["1,500 of 2,000 users", "2,000 of 2,000 users"]
    assert "\r" not in log.getvalue()


def test_quick_commands_print_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    log = io.StringIO()
    progress = Progress(log, noun="users")
    progress.advance(3)
    progress.finish()
    assert log.getvalue() == ""
