"""Progress of long commands: a bar on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

_BAR = 30
_SECONDS_BETWEEN_BARS = 0.1
_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Counts processed items named `noun` (a plural), of `total` if known. Writes to `stream`, standard error."""

    def __init__(self, stream: TextIO, *, noun: str, total: int | None = None) -> None:
        self._stream = stream
        self._noun = noun
        self._total = total
        self._count = 0
        self._is_terminal = stream.isatty()
        self._interval = _SECONDS_BETWEEN_BARS if self._is_terminal else _SECONDS_BETWEEN_LINES
        self._printed_at = time.monotonic()
        self._has_printed = False

    def advance(self, number: int = 1) -> None:
        self._count += number
        if time.monotonic() - self._printed_at >= self._interval:
            self._print()

    def finish(self) -> None:
        """Print the final count, unless the command was too quick to print any."""
        if self._has_printed:
            self._print()
            if self._is_terminal:
                self._stream.write("\n")
                self._stream.flush()

    def _print(self) -> None:
        self._has_printed = True
        self._printed_at = time.monotonic()
        text = (
            f"{self._count:,} {self._noun}"
            if self._total is None
            else f"{self._count:,} of {self._total:,} {self._noun}"
        )
        if not self._is_terminal:
            self._stream.write(f"{text}\n")
        elif self._total:
            filled = min(_BAR, _BAR * self._count // self._total)
            self._stream.write(f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {text}\x1b[K")
        else:
            self._stream.write(f"\r{text}\x1b[K")
        self._stream.flush()
