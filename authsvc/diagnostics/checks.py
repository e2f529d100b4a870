"""What `manage.py doctor` asks each app for: findings about what it needs from elsewhere, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Outcome(StrEnum):
    OK = "ok"
    UNUSED = "unused"
    """Not configured, which may be what the operator wants."""
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at. Neither text may hold a secret."""

    subject: str
    outcome: Outcome
    said: str
    """What was seen, for somebody who knows the settings but not the code."""
    remedy: str = ""
    """What to do about it; empty when all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What an examination may be told."""

    public_url: str
    """Where the running service is reached through its proxy; empty when that is not to be looked at."""


class Examination(Protocol):
    """A member of the setting EXAMINATIONS."""

    def examine(self, circumstances: Circumstances) -> Iterable[Finding]:
        """Look, change nothing, and send nobody a message. Failures to look are findings, not exceptions."""
        ...


def ok(subject: str, said: str) -> Finding:
    return Finding(subject=subject, outcome=Outcome.OK, said=said)


def unused(subject: str, said: str, remedy: str = "") -> Finding:
    return Finding(subject=subject, outcome=Outcome.UNUSED, said=said, remedy=remedy)


def warning(subject: str, said: str, remedy: str) -> Finding:
    return Finding(subject=subject, outcome=Outcome.WARNING, said=said, remedy=remedy)


def failure(subject: str, said: str, remedy: str) -> Finding:
    return Finding(subject=subject, outcome=Outcome.FAILURE, said=said, remedy=remedy)
