#!/usr/bin/env python
"""Runs management commands, with the flags `--config` and `--config-dir` for all of them."""

from __future__ import annotations

from authsvc.management import command_line

if __name__ == "__main__":
    command_line.run()
