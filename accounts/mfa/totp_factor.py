"""Authenticator apps as a kind of factor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.mfa import errors, totp_algorithm
from accounts.mfa.factor_types import Answer, Attempt, Opened, Proof
from accounts.models import Factor, FactorStatus
from accounts.users.records import UserRecord
from authsvc import conf
from authsvc.errors import UnexpectedFailure
from authsvc.security import encryption


class Totp:
    method = "totp"
    forgets_challenges = False
    is_guessable = True

    def check_enrolment(self) -> None:
        if not conf.current().mfa.totp_enroll_enabled:
            raise errors.TotpEnrolmentDisabled

    def check_verification(self) -> None:
        if not conf.current().mfa.totp_verify_enabled:
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
            secret = encryption.decrypt(stored, bound_to=attempt.factor.id)
            if encryption.needs_reencryption(stored):
                sealed = encryption.encrypt(secret, bound_to=attempt.factor.id)
                Factor.objects.filter(id=attempt.factor.id, secret=stored).update(secret=sealed)
            step = totp_algorithm.matching_step(attempt.answer.code, secret=secret, at=attempt.at)
        except (encryption.DecryptionError, ValueError) as error:
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
