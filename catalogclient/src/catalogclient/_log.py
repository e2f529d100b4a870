"""Loggers of the library."""

from __future__ import annotations

import logging

ROOT = logging.getLogger("catalogclient")
ROOT.addHandler(logging.NullHandler())
HTTP = logging.getLogger("catalogclient.http")
AUTH = logging.getLogger("catalogclient.auth")
CONFIG = logging.getLogger("catalogclient.config")
