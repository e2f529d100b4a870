"""The interface of a factor type: challenges and their verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from accounts.models import Factor, FactorChallenge
from accounts.users.records import UserRecord
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.messaging import Sms


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChallenge:
    """A new challenge: the values to store, the members of the response and, for a phone, the message to send."""

    otp_code: str = field(default="", repr=False)
    session_data: Mapping[str, Any] | None = field(default=None, repr=False)
    members: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further members of the response."""
    message: Sms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorResponse:
    """The response of a client to a challenge."""

    challenge_id: UUID
    code: str = field(default="", repr=False)
    webauthn: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationAttempt:
    """A response with its challenge and factor, as read before the transaction: both may have changed since."""

    user: UserRecord
    factor: Factor
    challenge: FactorChallenge
    response: FactorResponse
    at: datetime


ComputeChanges = Callable[[Factor], Mapping[str, Any]]
"""Takes the locked factor and returns the columns that the proof changes in it. May raise an error of verification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The outcome of a correct response."""

    factor_id: UUID
    """The factor that was used. Its removal lowers the sessions that it has stepped up."""
    changes: ComputeChanges


class FactorHandler(Protocol):
    """One type of factor."""

    method: str
    """The authentication method (AMR) that a verification adds to the session."""
    deletes_used_challenges: bool
    """True if a used challenge is deleted; otherwise its `verified_at` is set."""
    is_guessable: bool
    """True if responses are short enough to be guessed, so that wrong ones are counted."""

    @property
    def wrong_code(self) -> type[ApiError]:
        """The error of a wrong response."""

    def require_enrolment_enabled(self) -> None:
        """Raise an error when the operator has disabled enrolment."""

    def require_verification_enabled(self) -> None:
        """Raise an error when the operator has disabled verification."""

    def check_response(self, response: FactorResponse) -> None:
        """Raise the error of a malformed response. Calls `require_verification_enabled` at the documented position."""

    def check_challenge_allowed(self, user: UserRecord, *, phone: str, channel: str, caller: Caller) -> None:
        """Raise an error when the factor cannot be challenged now. Runs before the transaction of `create_challenge`.

        `phone` is the phone of the factor, `""` for a factor without one.
        """

    def create_challenge(
        self, user: UserRecord, factor: Factor, *, challenge_id: UUID, channel: str, at: datetime
    ) -> NewChallenge:
        """Create a challenge of this factor. Must run inside a transaction that has locked the factor's row."""

    def verify(self, attempt: VerificationAttempt) -> Proof:
        """Verify a response, outside of any transaction. Raises the error of a wrong one."""
