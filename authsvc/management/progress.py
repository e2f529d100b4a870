"""Tells whoever started a long command how far it is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

_BAR = 30
_SECONDS_BETWEEN_BARS = 0.1
_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """How many of `what` (a plural) are done, of `total` where that is known. To be written to standard error."""

    def __init__(self, stream: TextIO, *, what: str, total: int | None = None) -> None:
        self._stream = stream
        self._what = what
        self._total = total
        self._done = 0
        self._is_terminal = stream.isatty()
        self._pause = _SECONDS_BETWEEN_BARS if self._is_terminal else _SECONDS_BETWEEN_LINES
        self._told_at = time.monotonic()
        self._told = False

    def advance(self, number: int = 1) -> None:
        self._done += number
        if time.monotonic() - self._told_at >= self._pause:
            self._tell()

    def finish(self) -> None:
        """The last word. What was over before anything had to be said stays unsaid."""
        if self._told:
            self._tell()
            if self._is_terminal:
                self._stream.write("\n")
                self._stream.flush()

    def _tell(self) -> None:
        self._told = True
        self._told_at = time.monotonic()
        said = (
            f"{self._done:,} {self._what}" if self._total is None else f"{self._done:,} of {self._total:,} {self._what}"
        )
        if not self._is_terminal:
            self._stream.write(f"{said}\n")
        elif self._total:
            filled = min(_BAR, _BAR * self._done // self._total)
            self._stream.write(f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {said}\x1b[K")
        else:
            self._stream.write(f"\r{said}\x1b[K")
        self._stream.flush()
