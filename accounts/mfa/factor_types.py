"""What the types of second factors have in common, as far as a challenge and its answer go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from accounts.models import Factor, FactorChallenge
from accounts.users.records import UserRecord
from authsvc.messaging import Sms


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a new challenge stores and says; `message` carries it to the user where that is how it gets there."""

    otp_code: str = field(default="", repr=False)
    session_data: Mapping[str, Any] | None = field(default=None, repr=False)
    shown: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further members of the response."""
    message: Sms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client sends to prove that it has the factor."""

    challenge_id: UUID
    code: str = field(default="", repr=False)
    webauthn: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An answer with the challenge that it is for, and the factor as it was read: it may have changed since."""

    user: UserRecord
    factor: Factor
    challenge: FactorChallenge
    answer: Answer
    at: datetime


Settle = Callable[[Factor], Mapping[str, Any]]
"""Given the factor as it stands now, locked: what the proof changes in its row. May still raise that it is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a right answer brings about."""

    factor_id: UUID
    """The factor that was shown; with it goes what it has proved."""
    settle: Settle


class Kind(Protocol):
    """One type of factor."""

    method: str
    """Its authentication method in a session (AMR)."""
    forgets_challenges: bool
    """Whether a used challenge is deleted; else it stays and says when it was used."""
    is_guessable: bool
    """Whether answers are short enough to be guessed, so that wrong ones are counted."""

    def check_enrolment(self) -> None:
        """Raise the error of enrolment being switched off."""

    def check_verification(self) -> None:
        """Raise the error of verification being switched off."""

    def check_answer(self, answer: Answer) -> None:
        """Raise what can be said against an answer by its form; includes `check_verification` in its place."""

    def admit(self, user: UserRecord, *, phone: str, channel: str) -> None:
        """Raise what stands in the way of a challenge; before the transaction in which `open` makes it.

        `phone` is the number of the factor, `""` for one without.
        """

    def open(self, user: UserRecord, factor: Factor, *, challenge_id: UUID, channel: str, at: datetime) -> Opened:
        """Make a challenge of this factor, whose row is locked; inside the caller's transaction."""

    def prove(self, attempt: Attempt) -> Proof:
        """Check an answer; outside of any transaction. Raises the error of a wrong one."""
