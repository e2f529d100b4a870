"""Problems and warnings about the settings, collected while they are read so that an operator sees all at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

logger = logging.getLogger("authsvc.config")

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A log line about the settings, written once logging is set up."""

    level: Literal["info", "warning", "error"]
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further members of the line; `setting` is the variable that the line is about."""


def log_notices(notices: Iterable[Notice]) -> None:
    """Write the notices to the log, at start and again after each reload."""
    for notice in notices:
        logger.log(_LEVELS[notice.level], notice.message, extra={"component": "api", **notice.fields})


class SettingsReport:
    def __init__(self, variables: Mapping[str, str], names: Mapping[str, tuple[str, ...]]) -> None:
        """`names`: every accepted variable → all names of the same setting, the first that is set counts."""
        self.problems: list[str] = []
        self.notices: list[Notice] = []
        self._variables = variables
        self._names = names

    def written_name(self, variable: str) -> str | None:
        """The name under which the operator has set the setting of `variable`, even to an empty text."""
        return next((name for name in self._names.get(variable, (variable,)) if name in self._variables), None)

    def error(self, variable: str, message: str) -> None:
        """The settings cannot be used. The line starts with the variable unless the message names it."""
        name = self.written_name(variable) or variable
        self.problems.append(message if name in message else f"{name}: {message}")

    def missing(self, variable: str, *, help: str = "") -> None:
        name = self.written_name(variable) or variable
        self.problems.append(f"required key {name} missing value" + (f": {help}" if help else ""))

    def require(self, variable: str, *, help: str) -> None:
        """Report `variable` as missing unless it is set to a text that is not empty."""
        name = self.written_name(variable)
        if not (name and self._variables[name]):
            self.missing(variable, help=help)

    def info(self, variable: str, message: str) -> None:
        self.notices.append(Notice(level="info", message=message, fields={"setting": variable}))

    def warning(self, variable: str, message: str, **fields: str) -> None:
        name = self.written_name(variable) or variable
        self.notices.append(Notice(level="warning", message=message, fields={"setting": name, **fields}))


def describe_error(error: Exception, *, is_terminal: bool) -> str:
    """The output when the settings cannot be used: a list on a terminal, else one JSON object."""
    if is_terminal:
        problems = "".join(f"\n  - {line}" for line in str(error).splitlines())
        return f"The settings cannot be used:{problems}"
    fields = {
        "error": str(error),
        "level": "fatal",
        "msg": "unable to load config",
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    return json.dumps(fields, ensure_ascii=False)
