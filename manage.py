#!/usr/bin/env python
"""Runs management commands, with the flags `--config` and `--config-dir` for all of them."""

from __future__ import annotations

import os
import signal
import sys

if os.getpid() == 1:
    # The first process of a container ignores a signal that it does not handle. Servers and workers replace this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

from authsvc.management import command_line

if __name__ == "__main__":
    command_line.run()
