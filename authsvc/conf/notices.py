"""Log lines about the settings, collected while they are read and written once logging is set up."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

logger = logging.getLogger("authsvc.config")

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One log line."""

    level: Literal["info", "warning", "error"]
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further members of the line; `setting` is the variable that the line is about."""


def log(notices: Iterable[Notice]) -> None:
    """Write the notices to the log, at start and again after each reload."""
    for notice in notices:
        logger.log(_LEVELS[notice.level], notice.message, extra={"component": "api", **notice.fields})
