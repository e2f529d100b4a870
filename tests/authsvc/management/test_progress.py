"""Progress output of long commands."""

from __future__ import annotations

import io

import pytest

from authsvc.management import progress
from authsvc.management.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_BARS", 0.0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)


def test_a_terminal_sees_a_bar_that_fills() -> None:
    screen = Terminal()
    told = Progress(screen, noun="users", total=4000)
    told.advance(1000)
    told.advance(3000)
    told.finish()
    frames = screen.getvalue().replace("\x1b[K", "").split("\r")[1:]
    assert frames[0] == f"[{'#' * 7}{'.' * 23}] 1,000 of 4,000 users"
    assert frames[-1] == f"[{'#' * 30}] 4,000 of 4,000 users\n"


def test_a_terminal_sees_a_number_where_the_end_is_not_known() -> None:
    screen = Terminal()
    told = Progress(screen, noun="rows")
    told.advance()
    assert screen.getvalue() == "\r1 rows\x1b[K"


def test_a_log_gets_lines() -> None:
    log = io.StringIO()
    told = Progress(log, noun="users", total=2000)
    told.advance(1500)
    told.advance(500)
    told.finish()
    assert log.getvalue().splitlines()[:2] == ["1,500 of 2,000 users", "2,000 of 2,000 users"]
    assert "\r" not in log.getvalue()


def test_quick_commands_print_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 60.0)
    log = io.StringIO()
    told = Progress(log, noun="users")
    told.advance(3)
    told.finish()
    assert log.getvalue() == ""
