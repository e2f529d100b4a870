"""Codes by SMS as a second factor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts import errors as account_errors
from accounts.mfa import errors
from accounts.mfa.factor_types import FactorResponse, NewChallenge, Proof, VerificationAttempt
from accounts.models import Factor, FactorChallenge
from accounts.users import identifiers
from accounts.users.records import UserRecord
from authsvc import conf, languages, messaging
from authsvc.caller import Caller
from authsvc.errors import SmsGatewayMissing, UnexpectedFailure
from authsvc.messaging import Sender, Sms, SmsType, contract
from authsvc.security import crypto, encryption


class Phone:
    method = "mfa/phone"
    deletes_used_challenges = False
    is_guessable = True
    wrong_code = errors.PhoneCodeInvalid

    def require_enrolment_enabled(self) -> None:
        if not conf.current().mfa.phone_enroll_enabled:
            raise errors.PhoneEnrolmentDisabled

    def require_verification_enabled(self) -> None:
        if not conf.current().mfa.phone_verify_enabled:
            raise errors.PhoneVerificationDisabled

    def check_response(self, response: FactorResponse) -> None:
        if not response.code:
            raise errors.FactorCodeMissing
        self.require_verification_enabled()

    def check_challenge_allowed(self, user: UserRecord, *, phone: str, channel: str, caller: Caller) -> None:
        identifiers.channel(channel)
        _require_gateway()
        # The key is the phone, so that enrolling it again, or with another account, does not help.
        with messaging.recipient_interval(SmsType.FACTOR, phone):
            messaging.consume_sms_quota(Sender.of_request(caller, user_id=user.id))

    def create_challenge(
        self, user: UserRecord, factor: Factor, *, challenge_id: UUID, channel: str, at: datetime
    ) -> NewChallenge:
        config = conf.current().mfa
        code = crypto.generate_code(digits=config.phone_otp_length)
        message = Sms(
            type=SmsType.FACTOR,
            to=factor.phone or "",
            channel=identifiers.channel(channel),
            variables={"Code": code},
            user_id=user.id,
            expires_at=at + config.challenge_expiry,
            language=languages.of_user(user.user_metadata),
        )
        return NewChallenge(otp_code=encryption.encrypt(code, bound_to=challenge_id, always=True), message=message)

    def verify(self, attempt: VerificationAttempt) -> Proof:
        _require_gateway()
        if contract.has_verifying_gateway():
            verifier = contract.phone_verifier
            if not verifier.is_approved(phone=attempt.factor.phone or "", code=attempt.response.code):
                raise account_errors.CodeExpired
        else:
            _compare(attempt.challenge, attempt.response.code)
        return Proof(factor_id=attempt.factor.id, changes=_no_changes)


def _no_changes(_: Factor) -> Mapping[str, Any]:
    return {}


def _compare(challenge: FactorChallenge, code: str) -> None:
    stored = challenge.otp_code or ""
    try:
        expected = encryption.decrypt(stored, bound_to=challenge.id)
    except encryption.DecryptionError as error:
        if encryption.key_id(stored) == encryption.DERIVED_KEY_ID:
            raise errors.PhoneCodeInvalid from None  # sent before JWT_SECRET changed
        raise UnexpectedFailure("Database error verifying MFA Phone code") from error
    if expected and crypto.constant_time_equal(expected, code):
        return
    if expected and encryption.needs_reencryption(stored):
        FactorChallenge.objects.filter(id=challenge.id).update(
            otp_code=encryption.encrypt(expected, bound_to=challenge.id)
        )
    raise errors.PhoneCodeInvalid


def _require_gateway() -> None:
    try:
        messaging.check_sms_gateway()
    except SmsGatewayMissing:
        raise errors.NoGatewayForFactor from None
