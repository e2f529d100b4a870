"""Authenticator apps as a second factor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.mfa import errors, totp_algorithm
from accounts.mfa.factor_types import FactorResponse, NewChallenge, Proof, VerificationAttempt
from accounts.models import Factor, FactorStatus
from accounts.users.records import UserRecord
from authsvc import conf
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from authsvc.security import encryption


class Totp:
    method = "totp"
    deletes_used_challenges = False
    is_guessable = True
    wrong_code = errors.TotpCodeInvalid

    def require_enrolment_enabled(self) -> None:
        if not conf.current().mfa.totp_enroll_enabled:
            raise errors.TotpEnrolmentDisabled

    def require_verification_enabled(self) -> None:
        if not conf.current().mfa.totp_verify_enabled:
            raise errors.TotpVerificationDisabled

    def check_response(self, response: FactorResponse) -> None:
        if not response.code:
            raise errors.FactorCodeMissing
        self.require_verification_enabled()

    def check_challenge_allowed(self, user: UserRecord, *, phone: str, channel: str, caller: Caller) -> None:
        """An app can be challenged at any time."""

    def create_challenge(
        self, user: UserRecord, factor: Factor, *, challenge_id: UUID, channel: str, at: datetime
    ) -> NewChallenge:
        return NewChallenge()

    def verify(self, attempt: VerificationAttempt) -> Proof:
        stored = attempt.factor.secret or ""
        try:
            secret = encryption.decrypt(stored, bound_to=attempt.factor.id)
            if encryption.needs_reencryption(stored):
                encrypted = encryption.encrypt(secret, bound_to=attempt.factor.id)
                Factor.objects.filter(id=attempt.factor.id, secret=stored).update(secret=encrypted)
            step = totp_algorithm.matching_step(attempt.response.code, secret=secret, at=attempt.at)
        except (encryption.DecryptionError, ValueError) as error:
            raise UnexpectedFailure("Database error verifying MFA TOTP secret") from error
        if step is None:
            raise errors.TotpCodeInvalid

        def changes(factor: Factor) -> Mapping[str, Any]:
            if factor.status == FactorStatus.UNVERIFIED:
                # The code that completes the enrolment may be used once more to sign in.
                return {}
            if factor.last_totp_step is not None and step <= factor.last_totp_step:
                raise errors.TotpCodeInvalid
            return {"last_totp_step": step}

        return Proof(factor_id=attempt.factor.id, changes=changes)
