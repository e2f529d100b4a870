"""The diagnostics that `manage.py doctor` runs: their contract, their results, and their registry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class CheckOutcome(StrEnum):
    OK = "ok"
    UNUSED = "unused"
    """Not configured, which may be intended."""
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check. No text may contain a secret."""

    subject: str
    outcome: CheckOutcome
    message: str
    """The observation, written for an operator who knows the settings but not the code."""
    remedy: str = ""
    """The operator's next step; empty when nothing is to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticContext:
    """The arguments of a diagnostic run."""

    public_url: str
    """Address of the running service through its proxy; empty when the proxy is not to be checked."""


class Diagnostic(Protocol):
    def run(self, context: DiagnosticContext) -> Iterable[CheckResult]:
        """Check without changing state or sending messages. Reports its own failures as results, raises nothing."""
        ...


diagnostics: list[Diagnostic] = []
"""The diagnostics of all installed apps; `AppConfig.ready()` adds those of an app."""


def ok(subject: str, message: str) -> CheckResult:
    return CheckResult(subject=subject, outcome=CheckOutcome.OK, message=message)


def unused(subject: str, message: str, remedy: str = "") -> CheckResult:
    return CheckResult(subject=subject, outcome=CheckOutcome.UNUSED, message=message, remedy=remedy)


def warning(subject: str, message: str, remedy: str) -> CheckResult:
    return CheckResult(subject=subject, outcome=CheckOutcome.WARNING, message=message, remedy=remedy)


def failure(subject: str, message: str, remedy: str) -> CheckResult:
    return CheckResult(subject=subject, outcome=CheckOutcome.FAILURE, message=message, remedy=remedy)
