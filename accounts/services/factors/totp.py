"""Authenticator apps as a kind of factor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from accounts import errors
from accounts.factors import totp
from accounts.models import Factor, FactorStatus
from accounts.records import UserRecord
from accounts.services.factors.kinds import Answer, Attempt, Opened, Proof
from authsvc.core import envelope
from authsvc.core.errors import UnexpectedFailure


class Totp:
    method = "totp"
    forgets_challenges = False
    is_guessable = True

    def check_enrolment(self) -> None:
        if not settings.AUTH.mfa.totp_enroll_enabled:
            raise errors.TotpEnrolmentDisabled

    def check_verification(self) -> None:
        if not settings.AUTH.mfa.totp_verify_enabled:
            raise errors.TotpVerificationDisabled

    def check_answer(self, answer: Answer) -> None:
        if not answer.code:
            raise errors.FactorCodeMissing
        self.check_verification()

    def admit(self, user: UserRecord, *, phone: str, channel: str) -> None:
        """Nothing does."""

    def open(self, user: UserRecord, factor: Factor, *, challenge_id: UUID, channel: str, at: datetime) -> Opened:
        return Opened()

    def prove(self, attempt: Attempt) -> Proof:
        stored = attempt.factor.secret or ""
        try:
            secret = envelope.open(stored, bound_to=attempt.factor.id)
            if envelope.outdated(stored):
                sealed = envelope.seal(secret, bound_to=attempt.factor.id)
                Factor.objects.filter(id=attempt.factor.id, secret=stored).update(secret=sealed)
            step = totp.matching_step(attempt.answer.code, secret=secret, at=attempt.at)
        except (envelope.Undecryptable, ValueError) as error:
            raise UnexpectedFailure("Database error verifying MFA TOTP secret") from error
        if step is None:
            raise errors.TotpCodeInvalid

        def settle(factor: Factor) -> Mapping[str, Any]:
            if factor.status == FactorStatus.UNVERIFIED:
                # The code that ends the enrolment may be the one that people sign in with next.
                return {}
            if factor.last_totp_step is not None and step <= factor.last_totp_step:
                raise errors.TotpCodeInvalid
            return {"last_totp_step": step}

        return Proof(factor_id=attempt.factor.id, settle=settle)
