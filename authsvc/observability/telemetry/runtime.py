"""What is read regularly: what the process takes of its machine, and what others have asked to be read."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

from authsvc.observability import metrics

_SELF = Path("/proc/self")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Runtime:
    """Records what has changed since it was last asked; where there is no /proc, less."""

    def __init__(self) -> None:
        self._cpu = 0.0
        self._collections = [0] * len(gc.get_stats())
        self._levels: dict[metrics.Level, float] = {}

    def record(self) -> None:
        used = os.times()
        metrics.CPU_SECONDS.add(amount=used.user + used.system - self._cpu)
        self._cpu = used.user + used.system
        for generation, stats in enumerate(gc.get_stats()):
            runs = stats["collections"]
            metrics.COLLECTIONS.add(str(generation), amount=runs - self._collections[generation])
            self._collections[generation] = runs
        for level, read in metrics.readers.items():
            self._set(level, read())
        self._set(metrics.THREADS, threading.active_count())
        try:
            self._set(metrics.MEMORY, int((_SELF / "statm").read_text().split()[1]) * _PAGE)
            self._set(metrics.OPEN_FILES, sum(1 for _ in (_SELF / "fd").iterdir()))
        except OSError:
            return

    def _set(self, level: metrics.Level, value: float) -> None:
        level.change(value - self._levels.get(level, 0))
        self._levels[level] = value
